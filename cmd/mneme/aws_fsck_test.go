package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// fill gives the place a history worth checking: two stores, seven commits.
func (p *awsPlace) fill() {
	p.t.Helper()
	p.must("two\n", "write", "notes:/a.md")
	p.must("", "mv", "notes:/a.md", "notes:/dir/b.md")
	p.must("", "store", "create", "other")
	p.must("x\n", "write", "other:/x")
	p.must("", "rm", "other:/x")
}

const sound = `notes: 4 commits, 3 versions, 1 memory, 2 blobs: no problems
other: 3 commits, 2 versions, 0 memories, 1 blob: no problems
`

// TestAWSRebuild: a lost table comes back from the bucket alone.
func TestAWSRebuild(t *testing.T) {
	t.Parallel()
	p := newAWSPlace(t)
	p.fill()
	if got := p.must("", "fsck"); got != sound {
		t.Errorf("before: %s", got)
	}
	logs := p.must("", "log", "notes", "--json") + p.must("", "log", "other", "--json") + p.must("", "store", "list", "--json")
	_, table, _ := strings.Cut(p.url, "table=")
	dynamoDB(t, "UpdateTable", fmt.Sprintf(`{"TableName":%q,"DeletionProtectionEnabled":false}`, table))
	dynamoDB(t, "DeleteTable", fmt.Sprintf(`{"TableName":%q}`, table))
	if e := p.mneme("", "ls", "notes"); e.code != 3 || !strings.Contains(e.stderr, "mneme setup") {
		t.Errorf("without its table: exit code %d, %s", e.code, e.stderr)
	}
	if got := p.must("", "setup"); !strings.Contains(got, "fsck --rebuild-index") || strings.Contains(got, "store create") {
		t.Errorf("setup after the table was lost leads away from the rebuild:\n%s", got)
	}
	if got := p.must("", "store", "list", "--json"); got != "" {
		t.Errorf("an empty table has stores: %s", got)
	}
	if got := p.must("", "fsck", "--rebuild-index"); got != sound {
		t.Errorf("rebuilt: %s", got)
	}
	if got := p.must("", "log", "notes", "--json") + p.must("", "log", "other", "--json") + p.must("", "store", "list", "--json"); got != logs {
		t.Errorf("history before:\n%s\nand after:\n%s", logs, got)
	}
	p.must("three\n", "write", "notes:/dir/b.md")
	if e := p.mneme("", "fsck", "nothing", "--rebuild-index"); e.code != 3 {
		t.Errorf("a store that never was: exit code %d, %s", e.code, e.stderr)
	}
}

// TestAWSGaps: what table and bucket do not agree about is found, and mended
// from the other side.
func TestAWSGaps(t *testing.T) {
	t.Parallel()
	p := newAWSPlace(t)
	p.fill()
	_, table, _ := strings.Cut(p.url, "table=")
	id := regexp.MustCompile(`memstore_[0-9a-z]+`).FindString(p.must("", "store", "show", "notes", "--json"))
	row := func(sk string) string { return fmt.Sprintf(`{"store_id":{"S":%q},"sk":{"S":%q}}`, id, sk) }
	for _, c := range []struct{ name, row, want string }{
		{"a head", "/dir/b.md", `notes: problem: .*/dir/b.md`},
		{"a record's row", "LOG#00000000000000000002", `notes: problem: .*2`},
	} {
		t.Run(c.name, func(t *testing.T) {
			dynamoDB(t, "DeleteItem", fmt.Sprintf(`{"TableName":%q,"Key":%s}`, table, row(c.row)))
			e := p.mneme("", "fsck", "notes")
			if e.code != 7 || !regexp.MustCompile(c.want).MatchString(e.stdout) || !strings.Contains(e.stdout, "mneme fsck --rebuild-index") {
				t.Errorf("exit code %d\n%s%s", e.code, e.stdout, e.stderr)
			}
			if got := p.must("", "fsck", "notes", "--rebuild-index"); got+"other" != sound[:len(got)+5] {
				t.Errorf("rebuilt: %s", got)
			}
		})
	}
}

// TestAWSRewritten: what this machine has seen is compared with the records, also
// when another machine has gone on since.
func TestAWSRewritten(t *testing.T) {
	t.Parallel()
	p := newAWSPlace(t)
	p.must("two\n", "write", "notes:/a.md")
	p.with("", "XDG_STATE_HOME="+t.TempDir()).must("three\n", "write", "notes:/a.md")
	p.must("four\n", "write", "notes:/a.md")
	p.with("", "XDG_STATE_HOME="+t.TempDir()).must("five\n", "write", "notes:/a.md")
	files, err := filepath.Glob(p.home + "/.local/state/mneme/tips/*/memstore_*")
	if err != nil || len(files) != 1 {
		t.Fatalf("what is remembered: %v, %v", files, err)
	}
	text, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	text = regexp.MustCompile(`"digest":"[0-9a-f]{64}"`).ReplaceAll(text, []byte(`"digest":"`+strings.Repeat("0", 63)+`1"`))
	if err := os.WriteFile(files[0], text, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := p.must("", "cat", "notes:/a.md"); got != "five\n" {
		t.Errorf("reads: %q", got)
	}
	for _, args := range [][]string{{"write", "notes:/a.md"}, {"fsck", "notes"}} {
		if e := p.mneme("six\n", args...); e.code != 7 || !strings.Contains(e.stdout+e.stderr, "the history was rewritten") {
			t.Errorf("%v: exit code %d\n%s%s", args, e.code, e.stdout, e.stderr)
		}
	}
	if got := p.must("", "fsck", "notes", "--accept-loss"); !strings.Contains(got, "notes: accepted: ") || !strings.Contains(got, "no problems") {
		t.Errorf("accepted: %s", got)
	}
	p.must("six\n", "write", "notes:/a.md")
}

// TestAWSRestoredTable: when the table was restored to an earlier time, nothing is
// written or mounted, also by a machine that has not seen the store, until the index
// is rebuilt.
func TestAWSRestoredTable(t *testing.T) {
	t.Parallel()
	p := newAWSPlace(t)
	_, table, _ := strings.Cut(p.url, "table=")
	id := regexp.MustCompile(`memstore_[0-9a-z]+`).FindString(p.must("", "store", "show", "notes", "--json"))
	then := dynamoDB(t, "GetItem", fmt.Sprintf(`{"TableName":%q,"Key":{"store_id":{"S":%q},"sk":{"S":"META"}}}`, table, id))
	p.must("two\n", "write", "notes:/a.md")
	dynamoDB(t, "PutItem", fmt.Sprintf(`{"TableName":%q,%s`, table, then[1:]))
	other := p.with("", "XDG_STATE_HOME="+t.TempDir())
	for _, args := range [][]string{{"write", "notes:/a.md"}, {"mount", "notes", "--at", t.TempDir()}} {
		e := other.mneme("three\n", args...)
		if e.code != 7 || !strings.Contains(e.stderr, "the table ends with commit") || !strings.Contains(e.stderr, "mneme fsck --rebuild-index") {
			t.Errorf("%v: exit code %d\n%s%s", args, e.code, e.stdout, e.stderr)
		}
	}
	for _, args := range [][]string{
		{"write", "notes:/a.md"}, {"mount", "notes", "--at", t.TempDir()}, {"mount", "notes:ro", "--at", t.TempDir()},
		{"fsck", "notes"}, {"fsck", "notes", "--accept-loss"},
	} { // this machine has seen more, and there is nothing to accept
		e := p.mneme("three\n", args...)
		if out := e.stdout + e.stderr; e.code != 7 || strings.Contains(out, "--accept-loss") || strings.Contains(out, "accepted") || !strings.Contains(out, "mneme fsck --rebuild-index") {
			t.Errorf("%v: exit code %d\n%s", args, e.code, out)
		}
	}
	p.must("", "fsck", "notes", "--rebuild-index")
	p.must("three\n", "write", "notes:/a.md")
}

// TestAWSCaches: bytes are fetched once for all commands of a user, a lost
// cache costs nothing but time, and reads work where the home is not writable.
func TestAWSCaches(t *testing.T) {
	t.Parallel()
	p := newAWSPlace(t)
	cached := p.home + "/.cache/mneme/blobs"
	if got := p.must("", "cat", "notes:/a.md"); got != "one\n" {
		t.Fatalf("got %q", got)
	}
	if info, err := os.Stat(cached); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("cache: %v, %v", info, err)
	}
	offline := p.with("", "AWS_ENDPOINT_URL_S3=http://127.0.0.1:1")
	if got := offline.must("", "cat", "notes:/a.md"); got != "one\n" {
		t.Errorf("without S3: %q", got)
	}
	if err := os.RemoveAll(cached); err != nil {
		t.Fatal(err)
	}
	if got := p.must("", "cat", "notes:/a.md"); got != "one\n" {
		t.Errorf("without cache: %q", got)
	}
	if got := p.with("", "XDG_CACHE_HOME=/proc").must("", "cat", "notes:/a.md"); got != "one\n" {
		t.Errorf("with a cache that cannot be made: %q", got)
	}
}

// TestAWSSetup: setup makes everything once and says so, also to a program; what
// a server does not know is reported and no failure.
func TestAWSSetup(t *testing.T) {
	t.Parallel()
	p := newAWSPlace(t)
	fresh := p.with(strings.ReplaceAll(p.url, "cmd-", "fresh-"))
	outcomes := func() []string {
		var all []string
		for _, m := range regexp.MustCompile(`"outcome":"([^"]*)"`).FindAllStringSubmatch(fresh.must("", "setup", "--json"), -1) {
			all = append(all, m[1])
		}
		return all
	}
	const unknown = "not supported by this server"
	if got := strings.Join(outcomes(), ", "); got != "made, made, "+unknown+", made, made, "+unknown+", "+unknown+", "+unknown+", ready" {
		t.Errorf("the first time: %s", got)
	}
	if got := strings.Join(outcomes(), ", "); got != "was there, was there, "+unknown+", was there, was there, "+unknown+", "+unknown+", differs, ready" {
		t.Errorf("the second time: %s", got)
	}
	fresh.must("", "store", "create", "notes")
}

// TestAWSDeleteRest: what an interrupted deletion left goes by id, and only that.
func TestAWSDeleteRest(t *testing.T) {
	t.Parallel()
	p := newAWSPlace(t)
	id := regexp.MustCompile(`memstore_[0-9a-z]+`).FindString(p.must("", "store", "show", "notes", "--json"))
	e := p.with("", "AWS_ENDPOINT_URL_S3=http://127.0.0.1:1").mneme("", "store", "delete", "notes", "--yes")
	if e.code != 1 || !strings.Contains(e.stderr, "mneme store delete "+id+" --yes") {
		t.Errorf("without S3: exit code %d, %s", e.code, e.stderr)
	}
	if got := p.must("", "store", "delete", id, "--yes"); !strings.Contains(got, "what was left of it is removed") {
		t.Errorf("again: %q", got)
	}
	if e := p.mneme("", "store", "delete", id, "--yes"); e.code != 3 {
		t.Errorf("when nothing is left: exit code %d, %s", e.code, e.stderr)
	}
	if got := p.must("", "fsck", "--rebuild-index"); got != "No stores.\n" {
		t.Errorf("it came back: %s", got)
	}
}
