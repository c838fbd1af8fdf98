package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"mneme/cas"
	"mneme/cas/s3cas"
	"mneme/internal/testing/awstest"
)

// TestAWSRedact erases a text that was written in several ways, below a mount that runs,
// and looks for it in every row, object, old version and file.
func TestAWSRedact(t *testing.T) {
	t.Parallel()
	const canary = "CANARY-7f3a9c"
	p := newAWSPlace(t)
	p.must("", "setup", "--bucket-owner", awstest.AccessKey)
	mounts, _ := p.guarded("read-write", nil)
	dir := p.home + "/memory"
	mounts.must("", "mount", "notes", "--background", "--at", dir)
	unmounted := false
	defer func() {
		if !unmounted {
			p.mneme("", "unmount", "--at", dir)
		}
	}()
	sh := func(script string) string {
		t.Helper()
		out, err := exec.Command("sh", "-c", "cd "+dir+"/notes && "+script).CombinedOutput()
		if err != nil {
			t.Fatalf("%v, %s", err, out)
		}
		return string(out)
	}
	sh(`c=` + canary + `; echo $c > written.md; (seq 2000; echo $c) > appended.md; mkdir dir; echo x > dir/$c.md; mv dir/$c.md dir/x.md
		echo $c > gone.md; rm gone.md; echo $c > .saved.tmp; mv .saved.tmp saved.md; cat *.md > /dev/null`)
	p.must(canary+"\n", "write", "notes:/command.md")
	p.must(`{"changes":[{"action":"put","path":"/applied.md","content":"`+canary+`"}]}`, "apply", "notes")
	far := *p // another machine, on which no mneme runs meanwhile
	far.vars = append(slices.Clone(p.vars), "XDG_CACHE_HOME="+p.home+"/far")
	far.must("", "ls", "notes")
	far.must("", "cat", "notes:/command.md")
	sh(`for f in *.md dir/x.md; do echo clean > $f; done`)
	p.must("clean", "write", "notes:/command.md")
	p.must("clean", "write", "notes:/applied.md")
	out := p.mneme("", "redact", "notes", "--grep", canary, "--reason", "a test", "--dry-run")
	ids := regexp.MustCompile("memver_[0-9a-z]{26}").FindAllString(out.stdout, -1)
	if len(ids) < 8 {
		t.Fatalf("to be erased is %s%s", out.stdout, out.stderr)
	}
	digests := []string{cas.Sum([]byte(canary + "\n")).String(), cas.Sum([]byte(canary)).String()}
	if found := p.holders(t, digests[0]); len(found) < 3 {
		t.Fatalf("before, only %q have the digest", found)
	}
	redact := []string{"redact", "notes", "--grep", canary, "--reason", "a test", "--yes"}
	if e := mounts.mneme("", redact...); e.code != 5 || !strings.Contains(e.stderr, "access denied") {
		t.Errorf("with the key of a mount: exit code %d, %s%s", e.code, e.stdout, e.stderr)
	}
	admin, _ := p.guarded("admin", nil)
	if e := admin.mneme("", redact...); e.code != 1 || strings.Count(e.stdout, "NOT YET") != 3 || !strings.Contains(e.stdout, "s3:DeleteObjectVersion") {
		t.Errorf("with the key of an admin: exit code %d, and the receipt is\n%s%s", e.code, e.stdout, e.stderr)
	}
	found := p.mneme("", "fsck", "notes")
	if found.code != 7 || !strings.Contains(found.stdout, "not all of them is gone from the bucket") ||
		!strings.Contains(found.stdout, "`mneme redact notes VERSION… --reason WHY`") || strings.Contains(found.stdout, "--rebuild-index") {
		t.Errorf("fsck then ends with %d:\n%s", found.code, found.stdout)
	}
	may, g := p.guarded("redact", nil)
	if e := may.mneme("", redact...); e.code != 1 || !strings.Contains(e.stdout, "NOT YET") || !strings.Contains(e.stdout, ids[0]) || !strings.Contains(e.stderr, "NOT YET") {
		t.Fatalf("without an id: exit code %d, and the receipt is\n%s%s", e.code, e.stdout, e.stderr)
	}
	if receipt := may.must("", append([]string{"redact", "notes", "--reason", "a test", "--yes"}, ids...)...); strings.Contains(receipt, "NOT YET") || strings.Count(receipt, "in the bucket") != 4 {
		t.Errorf("the receipt is\n%s", receipt)
	}
	if refused := g.refusals(); len(refused) > 0 {
		t.Errorf("the policy refuses %q", refused)
	}
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) { // until the mount has followed
		if !strings.Contains(sh("cat .mneme/events"), `"redacted"`) && time.Now().Before(end) { // before, it would note that a content is missing
			continue
		}
		left := sh(`grep -rl ` + canary + ` . .mneme/at/9 .mneme/events || :; find .mneme/at/9 -name '*` + canary + `*' || :`)
		if left == "" {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("the mount has it: %s", left)
		}
	}
	p.must("", "unmount", "--at", dir)
	unmounted = true
	far.must("", "ls", "notes")
	for _, trace := range append(digests, canary) {
		if found := p.holders(t, trace); found != nil {
			t.Errorf("%s is in %q", trace, found)
		}
	}
	p.must("", "fsck", "notes")
	if out := p.must("", "log", "notes", "-p") + p.must("", "export", "notes"); strings.Contains(out, canary) {
		t.Error("log or export have it")
	}

	// A version that a rule lets go of goes the same way, and is finished by a key that may
	// delete.
	p.must("", "store", "update", "notes", "--keep-versions", "1")
	gc := []string{"gc", "notes", "--grace", "0s"}
	if out := p.must("", append(gc, "--dry-run")...); !regexp.MustCompile(`keeps the newest 1 version of a memory; \d+ versions would be erased`).MatchString(out) {
		t.Errorf("would go: %s", out)
	}
	if e := mounts.mneme("", gc...); e.code != 5 || !strings.Contains(e.stderr, "access denied") {
		t.Errorf("with the key of a mount: exit code %d, %s%s", e.code, e.stdout, e.stderr)
	}
	if e := admin.mneme("", gc...); e.code != 1 || !strings.Contains(e.stdout, "NOT YET  contents in the bucket") {
		t.Errorf("with the key of an admin: exit code %d, %s%s", e.code, e.stdout, e.stderr)
	}
	if out := may.must("", append(gc, "--json")...); !strings.Contains(out, `"type":"gc"`) || strings.Contains(out, `"left"`) {
		t.Errorf("with the key of one who redacts: %s", out)
	}
	if refused := g.refusals(); len(refused) > 0 {
		t.Errorf("the policy refuses %q", refused)
	}
	p.must("", "fsck", "notes")
}

// TestAWSRedactOrphans: the content of a write that was refused behind its upload is of no version,
// and goes with the store's next redaction, whatever that asks for.
func TestAWSRedactOrphans(t *testing.T) {
	t.Parallel()
	p := newAWSPlace(t)
	bucket, _, _ := strings.Cut(strings.TrimPrefix(p.url, "aws://"), "?table=")
	id := regexp.MustCompile(`memstore_[0-9a-z]+`).FindString(p.must("", "store", "show", "notes", "--json"))
	blobs := s3cas.Open(awstest.Clients(t, nil).S3, bucket, "stores/"+id)
	text := []byte(strings.Repeat("a text that lost a race ", 1000))
	p.must("first", "write", "notes:/a.md")
	p.must("second", "write", "notes:/a.md")
	for _, query := range []string{"first", "a race"} {
		d, err := blobs.Put(t.Context(), text)
		if err != nil {
			t.Fatal(err)
		}
		out := p.mneme("", "redact", "notes", "--grep", query, "--reason", "a test", "--yes")
		if !strings.Contains(out.stdout, "contents of no version in the bucket (1)") || strings.Contains(out.stdout, "NOT YET") || out.code != 0 {
			t.Errorf("%s: exit code %d, %s%s", query, out.code, out.stdout, out.stderr)
		}
		if there, err := blobs.Has(t.Context(), d); there || err != nil {
			t.Errorf("%s: it is there: %v, %v", query, there, err)
		}
	}
	if got := p.must("", "cat", "notes:/a.md"); got != "second" {
		t.Errorf("the memory is %q", got)
	}
	p.must("", "fsck", "notes")
}

// holders returns the rows, the versions of objects, and the files of the user that have a
// text in them or in their names.
func (p *awsPlace) holders(t *testing.T, what string) []string {
	t.Helper()
	bucket, table, _ := strings.Cut(strings.TrimPrefix(p.url, "aws://"), "?table=")
	places := awstest.Holders(t, bucket, table, what)
	err := filepath.WalkDir(p.home, func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		if strings.Contains(path, what) || bytes.Contains(data, []byte(what)) {
			places = append(places, "file "+path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return places
}
