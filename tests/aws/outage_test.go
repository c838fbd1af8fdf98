package aws

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mneme/internal/testing/awstest"
	"mneme/tests/harness"
)

// failsWithin wants a script to end with an error, and soon enough.
func failsWithin(t *testing.T, m *harness.Mount, bound time.Duration, script, message string) {
	t.Helper()
	began := time.Now()
	r := m.Try(t, script)
	if r.Code == 0 || !strings.Contains(r.Stderr, message) {
		t.Errorf("%s: %v; want %q", script, r, message)
	}
	if took := time.Since(began); took > harness.SlownessOf(t)*bound {
		t.Errorf("%s: took %v, at most %v", script, took, bound)
	}
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
	e := harness.NewEnv(t)
	s3, dynamo := e.OwnServers()
	e.Store("notes")
	for _, name := range []string{"read", "on-disk", "unread", "later"} {
		e.MustIn(t, name+"\n", "write", "notes:/"+name)
	}
	m := e.Mount(t, "notes")
	m.Sh(t, `cat read; echo before > mine`)
	e.Must(t, "cat", "notes:/on-disk") // into the disk cache that the mount shares

	dynamo.Stop()
	m.Eventually(t, `grep -q '^state: degraded' .mneme/status`)
	if got := m.Sh(t, `cat read later mine; ls`); got != "read\nlater\nbefore\nlater\nmine\non-disk\nread\nunread\n" {
		t.Errorf("without DynamoDB: %q", got)
	}
	failsWithin(t, m, bound, `cp read mine`, eio)
	failsWithin(t, m, bound, `cp read new`, eio)
	failsWithin(t, m, bound, `echo lost > mine`, eio) // a shell ignores errors at close
	failsWithin(t, m, bound, `echo lost > newer`, eio)

	s3.Stop()
	if got := m.Sh(t, `cat read mine on-disk; wc -c < unread`); got != "read\nbefore\non-disk\n7\n" {
		t.Errorf("without both: %q", got)
	}
	failsWithin(t, m, bound, `cat unread`, eio)
	failsWithin(t, m, bound, `rm mine`, eio)
	m.Sh(t, `grep -q 'unread.*cannot be reached' .mneme/errors`)

	dynamo.Start(t)
	m.Eventually(t, `grep -q '^state: ok' .mneme/status`)
	failsWithin(t, m, bound, `cp read new`, eio) // S3 is still away

	s3.Start(t)
	m.Eventually(t, `cat unread`)
	m.Eventually(t, `echo after > mine`)
	if got := m.Sh(t, `cat mine unread; ls`); got != "after\nunread\nlater\nmine\non-disk\nread\nunread\n" {
		t.Errorf("when both are back: %q", got)
	}
	e.CheckHistory(t, "notes:/mine", m.Session, "created modified")
	m.Stop(t)
	if out := e.Must(t, "fsck", "notes"); !strings.Contains(out, "no problems") {
		t.Errorf("fsck: %s", out)
	}
}

// TestRemoteBlobDamaged holds that bytes that were changed or removed in the
// bucket are an error and never other bytes, that fsck finds them, and that it
// puts back what this machine's cache still has.
func TestRemoteBlobDamaged(t *testing.T) {
	t.Parallel()
	e := harness.NewEnv(t)
	e.OwnServers()
	e.Store("notes")
	damage := map[string]string{
		"changed": `printf X | dd of="$0" bs=1 seek=3 conv=notrunc status=none`,
		"cut":     `truncate -s 5 "$0"`,
		"longer":  `echo more >> "$0"`,
		"removed": `rm "$0"`,
	}
	files := map[string]string{}
	for name := range damage {
		e.MustIn(t, "the words of "+name+"\n", "write", "notes:/"+name)
		e.MustIn(t, "cached words of "+name+"\n", "write", "notes:/cached-"+name)
		e.Must(t, "cat", "notes:/cached-"+name) // into the disk cache
		for _, file := range []string{name, "cached-" + name} {
			files[file] = e.BlobFile(t, e.Versions(t, "notes:/"+file)[0].SHA256)
		}
	}
	m := e.Mount(t, "notes")
	for name, script := range damage {
		for _, file := range []string{name, "cached-" + name} {
			if r := e.Run(t, harness.ScriptPatience, "", func() {}, "bash", "-ec", script, files[file]); r.Code != 0 {
				t.Fatalf("%v", r)
			}
		}
	}
	for name := range damage {
		if r := m.Try(t, "cat "+name); r.Code == 0 || r.Stdout != "" || !strings.Contains(r.Stderr, "Input/output error") {
			t.Errorf("%s: %v", name, r)
		}
		if r := e.Mneme("cat", "notes:/"+name); r.Code != 7 || r.Stdout != "" {
			t.Errorf("mneme cat %s: %v", name, r)
		}
		if got := m.Sh(t, "cat cached-"+name); got != "cached words of "+name+"\n" {
			t.Errorf("cached-%s: %q", name, got)
		}
	}
	r := e.Mneme("fsck", "notes")
	if n := strings.Count(r.Stdout, "problem: blob"); r.Code != 7 || n != 2*len(damage) {
		t.Errorf("fsck finds %d damaged blobs, want %d: %v", n, 2*len(damage), r)
	}
	r = e.Mneme("fsck", "notes", "--repair")
	if n := strings.Count(r.Stdout, "repaired: blob"); r.Code != 7 || n != len(damage) {
		t.Errorf("fsck --repair mends %d blobs, want %d: %v", n, len(damage), r)
	}
	for name := range damage { // a program that writes it again gets it back
		m.Sh(t, "echo the words of "+name+" > anew-"+name)
	}
	if out := e.Must(t, "fsck"); !strings.Contains(out, "no problems") {
		t.Errorf("in the end: %s", out)
	}
}

// TestNothingLeaks holds that no memory's content and no credential gets into a
// log, an error, a status or a file outside store and cache, whatever goes wrong.
func TestNothingLeaks(t *testing.T) {
	t.Parallel()
	const content = "canary-in-a-memory"
	e := harness.NewEnv(t)
	s3, dynamo := e.OwnServers()
	e.Store("notes")
	var said []string
	say := func(r harness.Result) { said = append(said, r.Stderr) }
	e.MustIn(t, content+"\n", "write", "notes:/a")
	e.MustIn(t, content+" twice\n", "write", "notes:/damaged")
	m := e.Mount(t, "notes")
	if err := os.WriteFile(e.BlobFile(t, e.Versions(t, "notes:/damaged")[0].SHA256), []byte(content+" thrice\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	say(m.Try(t, `cat damaged`))
	say(m.Try(t, `for i in $(seq 9000); do echo `+content+`; done > big`))
	say(m.Try(t, `printf '`+content+`\377' > binary`))
	say(e.MnemeIn(t, content, "write", "notes:/a", "--if-absent"))
	say(e.Mneme("cat", "notes:/damaged"))
	say(e.Mneme("fsck"))
	say(e.Mneme("status"))
	dynamo.Stop()
	say(m.Try(t, `echo `+content+` > a`))
	say(e.MnemeIn(t, content, "write", "notes:/b"))
	s3.Stop()
	say(m.Try(t, `echo `+content+` > c`))
	say(e.MnemeIn(t, content, "write", "notes:/b", "--json"))
	said = append(said, m.Sh(t, `cat .mneme/status .mneme/errors`))
	dynamo.Start(t)
	s3.Start(t)
	m.Eventually(t, `echo x > d`)
	m.Stop(t)
	said = append(said, m.Stderr.String())
	for _, text := range said {
		for _, secret := range []string{content, awstest.SecretKey} {
			if strings.Contains(text, secret) {
				t.Errorf("%q is in:\n%s", secret, text)
			}
		}
	}
	err := filepath.WalkDir(e.Dir, func(path string, entry fs.DirEntry, err error) error {
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
