package tests

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mneme/internal/testing/awstest"
)

// ownServers gives the test's stores servers of the test's own.
func (e *env) ownServers() (s3, dynamo *awstest.Server) {
	e.t.Helper()
	s3, dynamo = awstest.NewS3(e.t), awstest.NewDynamoDB(e.t)
	e.goRemote(s3.Endpoint, dynamo.Endpoint)
	e.stores = filepath.Join(s3.Dir(), "s3")
	return s3, dynamo
}

// failsWithin wants a script to end with an error, and soon enough.
func (m *mount) failsWithin(t *testing.T, bound time.Duration, script, message string) {
	t.Helper()
	began := time.Now()
	r := m.try(t, script)
	if r.code == 0 || !strings.Contains(r.stderr, message) {
		t.Errorf("%s: %v; want %q", script, r, message)
	}
	if took := time.Since(began); took > slowness*bound {
		t.Errorf("%s: took %v, at most %v", script, took, bound)
	}
}

// eventually repeats a script until it succeeds.
func (m *mount) eventually(t *testing.T, script string) {
	t.Helper()
	var r result
	began := time.Now()
	defer func() { t.Logf("%s: after %v", script, time.Since(began).Round(time.Millisecond)) }()
	for deadline := time.Now().Add(scriptPatience); time.Now().Before(deadline); time.Sleep(200 * time.Millisecond) {
		if r = m.try(t, script); r.code == 0 {
			return
		}
	}
	t.Fatalf("%s: still fails after %v: %v\n%s", script, scriptPatience, r, m.sh(t, "cat .mneme/status .mneme/errors"))
}

// TestEndpointLost holds that without S3, DynamoDB or both a mount serves what
// it has, fails the rest within 30 s, says that it is degraded, and goes on by
// itself when they are back.
func TestEndpointLost(t *testing.T) {
	t.Parallel()
	const (
		bound = 30 * time.Second
		eio   = "Input/output error"
	)
	e := newEnv(t)
	s3, dynamo := e.ownServers()
	e.store("notes")
	for _, name := range []string{"read", "on-disk", "unread", "later"} {
		e.mustIn(t, name+"\n", "write", "notes:/"+name)
	}
	m := e.mount(t, "notes")
	m.sh(t, `cat read; echo before > mine`)
	e.must(t, "cat", "notes:/on-disk") // into the disk cache that the mount shares

	dynamo.Stop()
	m.eventually(t, `grep -q '^state: degraded' .mneme/status`)
	if got := m.sh(t, `cat read later mine; ls`); got != "read\nlater\nbefore\nlater\nmine\non-disk\nread\nunread\n" {
		t.Errorf("without DynamoDB: %q", got)
	}
	m.failsWithin(t, bound, `cp read mine`, eio)
	m.failsWithin(t, bound, `cp read new`, eio)
	m.failsWithin(t, bound, `echo lost > mine`, eio) // a shell ignores errors at close
	m.failsWithin(t, bound, `echo lost > newer`, eio)

	s3.Stop()
	if got := m.sh(t, `cat read mine on-disk; wc -c < unread`); got != "read\nbefore\non-disk\n7\n" {
		t.Errorf("without both: %q", got)
	}
	m.failsWithin(t, bound, `cat unread`, eio)
	m.failsWithin(t, bound, `rm mine`, eio)
	m.sh(t, `grep -q 'unread.*cannot be reached' .mneme/errors`)

	dynamo.Start(t)
	m.eventually(t, `grep -q '^state: ok' .mneme/status`)
	m.failsWithin(t, bound, `cp read new`, eio) // S3 is still away

	s3.Start(t)
	m.eventually(t, `cat unread`)
	m.eventually(t, `echo after > mine`)
	if got := m.sh(t, `cat mine unread; ls`); got != "after\nunread\nlater\nmine\non-disk\nread\nunread\n" {
		t.Errorf("when both are back: %q", got)
	}
	e.checkHistory(t, "notes:/mine", m.session, "created modified")
	m.stop(t)
	if out := e.must(t, "fsck", "notes"); !strings.Contains(out, "no problems") {
		t.Errorf("fsck: %s", out)
	}
}

// TestRemoteBlobDamaged holds that bytes that were changed or removed in the
// bucket are an error and never other bytes, that fsck finds them, and that it
// puts back what this machine's cache still has.
func TestRemoteBlobDamaged(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.ownServers()
	e.store("notes")
	damage := map[string]string{
		"changed": `printf X | dd of="$0" bs=1 seek=3 conv=notrunc status=none`,
		"cut":     `truncate -s 5 "$0"`,
		"longer":  `echo more >> "$0"`,
		"removed": `rm "$0"`,
	}
	files := map[string]string{}
	for name := range damage {
		e.mustIn(t, "the words of "+name+"\n", "write", "notes:/"+name)
		e.mustIn(t, "cached words of "+name+"\n", "write", "notes:/cached-"+name)
		e.must(t, "cat", "notes:/cached-"+name) // into the disk cache
		for _, file := range []string{name, "cached-" + name} {
			files[file] = e.blobFile(t, e.versions(t, "notes:/"+file)[0].SHA256)
		}
	}
	m := e.mount(t, "notes")
	for name, script := range damage {
		for _, file := range []string{name, "cached-" + name} {
			if r := e.run(t, scriptPatience, "", func() {}, "bash", "-ec", script, files[file]); r.code != 0 {
				t.Fatalf("%v", r)
			}
		}
	}
	for name := range damage {
		if r := m.try(t, "cat "+name); r.code == 0 || r.stdout != "" || !strings.Contains(r.stderr, "Input/output error") {
			t.Errorf("%s: %v", name, r)
		}
		if r := e.mneme("cat", "notes:/"+name); r.code != 7 || r.stdout != "" {
			t.Errorf("mneme cat %s: %v", name, r)
		}
		if got := m.sh(t, "cat cached-"+name); got != "cached words of "+name+"\n" {
			t.Errorf("cached-%s: %q", name, got)
		}
	}
	r := e.mneme("fsck", "notes")
	if n := strings.Count(r.stdout, "problem: blob"); r.code != 7 || n != 2*len(damage) {
		t.Errorf("fsck finds %d damaged blobs, want %d: %v", n, 2*len(damage), r)
	}
	r = e.mneme("fsck", "notes", "--repair")
	if n := strings.Count(r.stdout, "repaired: blob"); r.code != 7 || n != len(damage) {
		t.Errorf("fsck --repair mends %d blobs, want %d: %v", n, len(damage), r)
	}
	for name := range damage { // who writes it anew gets it back
		m.sh(t, "echo the words of "+name+" > anew-"+name)
	}
	if out := e.must(t, "fsck"); !strings.Contains(out, "no problems") {
		t.Errorf("in the end: %s", out)
	}
}

// TestNothingLeaks holds that no memory's content and no credential gets into a
// log, an error, a status or a file outside store and cache, whatever goes wrong.
func TestNothingLeaks(t *testing.T) {
	t.Parallel()
	const content = "canary-in-a-memory"
	e := newEnv(t)
	s3, dynamo := e.ownServers()
	e.store("notes")
	var said []string
	say := func(r result) { said = append(said, r.stderr) }
	e.mustIn(t, content+"\n", "write", "notes:/a")
	e.mustIn(t, content+" twice\n", "write", "notes:/damaged")
	m := e.mount(t, "notes")
	if err := os.WriteFile(e.blobFile(t, e.versions(t, "notes:/damaged")[0].SHA256), []byte(content+" thrice\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	say(m.try(t, `cat damaged`))
	say(m.try(t, `for i in $(seq 9000); do echo `+content+`; done > big`))
	say(m.try(t, `printf '`+content+`\377' > binary`))
	say(e.mnemeIn(t, content, "write", "notes:/a", "--if-absent"))
	say(e.mneme("cat", "notes:/damaged"))
	say(e.mneme("fsck"))
	say(e.mneme("status"))
	dynamo.Stop()
	say(m.try(t, `echo `+content+` > a`))
	say(e.mnemeIn(t, content, "write", "notes:/b"))
	s3.Stop()
	say(m.try(t, `echo `+content+` > c`))
	say(e.mnemeIn(t, content, "write", "notes:/b", "--json"))
	said = append(said, m.sh(t, `cat .mneme/status .mneme/errors`))
	dynamo.Start(t)
	s3.Start(t)
	m.eventually(t, `echo x > d`)
	m.stop(t)
	said = append(said, m.stderr.String())
	for _, text := range said {
		for _, secret := range []string{content, awstest.SecretKey} {
			if strings.Contains(text, secret) {
				t.Errorf("%q is in:\n%s", secret, text)
			}
		}
	}
	err := filepath.WalkDir(e.dir, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (entry.Name() == ".cache" || entry.Name() == "conflicts"): // there it belongs
			return filepath.SkipDir
		case entry.IsDir():
			return nil
		}
		data, err := os.ReadFile(path)
		for _, secret := range []string{content, awstest.SecretKey} {
			if strings.Contains(string(data), secret) {
				t.Errorf("%q is in %s", secret, path)
			}
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
