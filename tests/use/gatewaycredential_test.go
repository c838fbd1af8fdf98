package use

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"mneme/tests/harness"
)

// credentials makes those of a server that runs for a test.
type credentials struct {
	*testing.T
	e *harness.Env
}

// serveStores has `mneme serve` serve the stores of a place on a socket in it, to which its
// programs go from then on.
func serveStores(t *testing.T, e *harness.Env) *credentials {
	t.Helper()
	e.Vars = append(e.Vars, "MNEME_URL="+e.Serve(t, "unix:"+filepath.Join(e.Dir, "s")))
	return &credentials{t, e}
}

// beside runs a command where the stores are.
func (c *credentials) beside(args ...string) string {
	c.Helper()
	return c.e.Must(c, append(args, "--url", c.e.URL())...)
}

// key makes a key with grants, and returns its id and its secret.
func (c *credentials) key(label string, grants ...string) (id, secret string) {
	c.Helper()
	args := []string{"key", "create", label, "--json"}
	for _, grant := range grants {
		args = append(args, "--grant", grant)
	}
	var made struct{ ID, Secret string }
	if err := json.Unmarshal([]byte(c.beside(args...)), &made); err != nil {
		c.Fatal(err)
	}
	return made.ID, made.Secret
}

// token makes the token of a session with a key.
func (c *credentials) token(key, session string, stores ...string) string {
	c.Helper()
	args := []string{"token", key, "--session", session}
	for _, store := range stores {
		args = append(args, "--store", store)
	}
	return strings.TrimSpace(c.beside(args...))
}

// use has programs send a credential.
func (c *credentials) use(secret string) { c.e.Vars = append(c.e.Vars, "MNEME_TOKEN="+secret) }

// useFile has programs send the credential that a file has, and returns what puts another one there.
func (c *credentials) useFile() (put func(secret string)) {
	file := filepath.Join(c.e.Dir, "token")
	c.e.Vars = append(c.e.Vars, "MNEME_TOKEN_FILE="+file)
	return func(secret string) {
		c.Helper()
		next := file + ".next"
		if err := os.WriteFile(next, []byte(secret), 0o600); err != nil {
			c.Fatal(err)
		}
		if err := os.Rename(next, file); err != nil {
			c.Fatal(err)
		}
	}
}

// serveNotes serves the store notes to programs that have the token of the session agent-7 in a file,
// where put puts another one.
func serveNotes(t *testing.T) (e *harness.Env, c *credentials, put func(secret string)) {
	t.Helper()
	e = harness.NewEnv(t)
	e.Store("notes")
	c = serveStores(t, e)
	c.key("host", "notes:write")
	put = c.useFile()
	put(c.token("host", "agent-7", "notes"))
	return e, c, put
}

// TestGatewayToken: a mount with the token of a session is that session.
func TestGatewayToken(t *testing.T) {
	t.Parallel()
	e := harness.NewEnv(t)
	e.Store("notes")
	s := serveStores(t, e)
	id, _ := s.key("host", "notes:write")
	s.use(s.token("host", "agent-7", "notes"))
	refused := func(args ...string) {
		t.Helper()
		if r := e.Mneme(args...); r.Code != 2 || !strings.Contains(r.Stderr, "--session other") || !strings.Contains(r.Stderr, "agent-7") {
			t.Errorf("mneme %s: %v", strings.Join(args, " "), r)
		}
	}
	refused("mount", "notes", "--at="+filepath.Join(e.Dir, "other"), "--session=other")
	refused("plugin", "--store=notes", "--session=other")
	e.Sessionless = true
	m := e.Mount(t, "notes")
	if status := m.Sh(t, `cat .mneme/status`); !strings.Contains(status, "\nsession: agent-7\n") || !strings.Contains(status, "\nkey: "+id+"\n") {
		t.Errorf("the status is\n%s", status)
	}
	m.Sh(t, `set -e
echo mine > a.md
mneme log notes:/a.md --json | grep -q '"session_id":"agent-7"'
mneme undo notes --session "$(sed -n 's/^session: //p' .mneme/status)"`)
	m.Eventually(t, `test ! -e a.md`) // the mount hears of it from the server
	if r := e.Mneme("mount", "notes", "--at="+filepath.Join(e.Dir, "other")); r.Code == 0 || !strings.Contains(r.Stderr, "session agent-7 is in use") {
		t.Errorf("a second mount of the session: %v", r)
	}
	m.End(t)
	e.Sessionless = false
	if status := e.Mount(t, "notes", "--session=agent-7").Sh(t, `cat .mneme/status`); !strings.Contains(status, "\nsession: agent-7\n") {
		t.Errorf("with the same session the status is\n%s", status)
	}
}

// TestGatewayTokenIsStrict: a mount with the token of a session replaces the versions that the
// session has read, and nothing else, unless it was told otherwise. A mount with a key may
// replace versions that were never read.
func TestGatewayTokenIsStrict(t *testing.T) {
	t.Parallel()
	e := harness.NewEnv(t)
	e.Store("notes")
	for _, name := range []string{"a", "b", "c"} {
		e.MustIn(t, "theirs\n", "write", "notes:/"+name)
	}
	s := serveStores(t, e)
	_, secret := s.key("host", "notes:write")
	mount := func(script string, args ...string) {
		t.Helper()
		m := e.Mount(t, append([]string{"notes"}, args...)...)
		m.Sh(t, script)
		m.End(t)
	}
	s.use(secret)
	mount(`echo mine > a`)
	s.use(s.token("host", "agent-7", "notes"))
	mount(`if echo mine > b; then exit 1; fi
set -e
grep -qx theirs b
echo mine > b
grep -q "has to be read before" .mneme/note
mneme note notes | grep -q "has to be read before"`, "--session=agent-7")
	mount(`echo mine > c`, "--session=agent-7", "--no-strict")
}

// TestGatewayKey: a mount with a key, which has no session, has the one of its own, by which the
// server knows it.
func TestGatewayKey(t *testing.T) {
	t.Parallel()
	e := harness.NewEnv(t)
	e.Store("notes")
	s := serveStores(t, e)
	id, secret := s.key("laptop", "notes:write")
	s.use(secret)
	m := e.Mount(t, "notes")
	m.Sh(t, `set -e
echo mine > a.md
grep -qx 'session: `+m.Session+`' .mneme/status
grep -qx 'access: read-write' .mneme/status
grep -qx 'key: `+id+`' .mneme/status
mneme log notes:/a.md --json | grep -q '"session_id":"`+m.Session+`"'`)
}

// readers prints a mount's answers about the allowed operations on its store, and does them.
const readers = `
import errno, os
def tried(name, do):
    try: do(); got = "done"
    except OSError as e: got = errno.errorcode[e.errno]
    print(name, got)
print("may write:", os.access("f", os.W_OK), os.access(".", os.W_OK))
tried("open", lambda: os.close(os.open("f", os.O_WRONLY)))
tried("append", lambda: os.close(os.open("f", os.O_WRONLY | os.O_APPEND)))
tried("create", lambda: os.close(os.open("new", os.O_WRONLY | os.O_CREAT)))
tried("mkdir", lambda: os.mkdir("new"))
tried("unlink", lambda: os.unlink("f"))
for name in ["status", "note", "README"]:
    print([line for line in open(".mneme/" + name) if "read" in line])
`

// TestGatewayReader: a store that the credential may only read is mounted as with --read-only.
func TestGatewayReader(t *testing.T) {
	harness.NeedTools(t, "python3")
	t.Parallel()
	e := harness.NewEnv(t)
	e.Store("notes")
	e.Store("own")
	e.MustIn(t, "text\n", "write", "notes:/f")
	s := serveStores(t, e)
	s.key("host", "notes:read", "own:write")
	_, writer := s.key("writer", "notes:write", "own:write")
	script := `python3 -c '` + readers + `'`
	says := func(args ...string) string {
		m := e.Mount(t, args...)
		return strings.ReplaceAll(m.Sh(t, script), m.At, "DIR")
	}
	s.use(writer)
	alone, beside := says("notes", "--read-only"), says("notes:ro", "own")
	if !strings.Contains(alone, "'access: read-only") || strings.Contains(alone, "done") {
		t.Errorf("with --read-only it says\n%s", alone)
	}
	s.use(s.token("host", "agent-7", "notes:ro"))
	if got := says("notes", "--session=agent-7"); got != alone {
		t.Errorf("it says\n%s, want\n%s", got, alone)
	}
	for _, args := range [][]string{{"mount", "notes", "--print-prompt"}, {"note", "notes"}} {
		if out := e.Must(t, args...); !strings.Contains(out, "(read-only)") || strings.Contains(out, "(read and write)") {
			t.Errorf("mneme %s prints\n%s", strings.Join(args, " "), out)
		}
	}
	s.use(s.token("host", "agent-8", "notes:ro", "own"))
	if got := says("notes", "own", "--session=agent-8"); got != beside {
		t.Errorf("beside a store that it may write it says\n%s, want\n%s", got, beside)
	}
	s.use(s.token("host", "agent-9", "notes:ro", "own"))
	e.Mount(t, "own", "notes", "--session=agent-9").Sh(t, `echo x > f; grep -qx 'access: read-write' .mneme/status`)
}

// TestGatewayPlugin: a memory goes to the first store that the credential may write.
func TestGatewayPlugin(t *testing.T) {
	t.Parallel()
	e := harness.NewEnv(t)
	e.Store("handbook")
	e.Store("notes")
	s := serveStores(t, e)
	_, secret := s.key("host", "handbook:read", "notes:write")
	s.use(secret)
	turn := `{"id": 1, "method": "remember", "params": {"thread_id": "t", "turn_id": "1", "entries": [{"role": "user", "text": "x"}]}}` + "\n"
	out := e.MustIn(t, turn, "plugin", "--store=handbook", "--store=notes")
	if !strings.Contains(out, `"written":1`) || !strings.Contains(out, `"store":"notes"`) {
		t.Errorf("the turn: %s", out)
	}
	if out := e.MustIn(t, `{"id": 1, "method": "health"}`+"\n", "plugin", "--store=handbook", "--store=notes"); !strings.Contains(out, `"store":"handbook","ok":true,"read_only":true,"takes":false`) {
		t.Errorf("its health: %s", out)
	}
}

// TestGatewayPluginChangesStores: where the first store may no longer be written, a memory goes
// to the next one that may.
func TestGatewayPluginChangesStores(t *testing.T) {
	t.Parallel()
	e := harness.NewEnv(t)
	e.Store("own")
	e.Store("notes")
	s := serveStores(t, e)
	s.key("host", "own:write", "notes:write")
	put := s.useFile()
	put(s.token("host", "agent-7", "own", "notes"))
	p := e.Lines(t, e.Daemon, "plugin", "--store=own", "--store=notes", "--session=agent-7")
	remembers := func(turn, store string) {
		t.Helper()
		harness.AwaitUntil(t, store+" takes what is remembered", func() bool {
			return strings.Contains(p.Ask(t, `{"id": 1, "method": "health"}`), `"store":"`+store+`","ok":true,"read_only":false,"takes":true`)
		})
		out := p.Ask(t, `{"id": 2, "method": "remember", "params": {"thread_id": "t", "turn_id": "`+turn+`", "entries": [{"role": "user", "text": "x"}]}}`)
		if !strings.Contains(out, `"written":1`) || !strings.Contains(out, `"store":"`+store+`"`) {
			t.Errorf("the turn %s: %s", turn, out)
		}
	}
	remembers("1", "own")
	put(s.token("host", "agent-7", "own:ro", "notes"))
	remembers("2", "notes")
	put(s.token("host", "agent-7", "own", "notes"))
	remembers("3", "own")
}

// TestGatewayToolWithoutCredential: an agent whose credential does not count is told that nothing was changed.
func TestGatewayToolWithoutCredential(t *testing.T) {
	t.Parallel()
	e, _, put := serveNotes(t)
	tool := e.Lines(t, e.Daemon, "tool", "--store=notes", "--session=agent-7", "--calls=0")
	create := func(name string) string {
		return tool.Ask(t, `{"id": 1, "input": {"command": "create", "path": "/memories/`+name+`", "file_text": "x\n"}}`)
	}
	if out := create("a.md"); strings.Contains(out, `"is_error":true`) {
		t.Fatal(out)
	}
	put("mneme_nobody_secret")
	for range 2 { // of which the server hears of one
		if out := create("b.md"); !strings.Contains(out, "nothing was changed") || strings.Contains(out, "not known") {
			t.Error(out)
		}
	}
}

// TestGatewayTokenFile: while a store is mounted, the allowed operations are those that the
// credential now in the file allows, in the session of the mount and in no other.
func TestGatewayTokenFile(t *testing.T) {
	t.Parallel()
	e, s, put := serveNotes(t)
	e.Sessionless = true
	m := e.Mount(t, "notes")
	becomes := func(access string) {
		t.Helper()
		m.Eventually(t, `grep -qx 'access: `+access+`' .mneme/status && grep -qx 'session: agent-7' .mneme/status`)
	}
	m.Sh(t, `echo one > f; grep -qx 'access: read-write' .mneme/status`)
	isRefused := func() {
		t.Helper()
		if r := m.Try(t, `echo two > f`); r.Code == 0 || !strings.Contains(r.Stderr, "Read-only file system") {
			t.Errorf("a write: %v", r)
		}
	}
	put(s.token("host", "agent-7", "notes:ro"))
	becomes("read-only")
	isRefused()
	m.Sh(t, `grep -q 'read-only here' .mneme/README && grep -q '(read-only)' .mneme/note`)
	put(s.token("host", "agent-7", "notes"))
	becomes("read-write")
	m.Sh(t, `set -e; echo three > f; grep -q 'You may create' .mneme/README`)
	put(s.token("host", "agent-8", "notes"))
	becomes("read-only")
	isRefused()
	put(s.token("host", "agent-7", "notes"))
	becomes("read-write")
	put("mneme_nobody_secret")
	m.Eventually(t, `grep '^state: degraded: .*does not accept the credential' .mneme/status`) // also where no program asks for anything else
	for range 3 {                                                                              // of which the server hears of one
		if r := m.Try(t, `echo four > g`); r.Code == 0 {
			t.Errorf("a write with a credential that does not count: %v", r)
		}
	}
	put(s.token("host", "agent-7", "notes"))
	m.Eventually(t, `echo five > f && grep -qx 'state: ok' .mneme/status`)
	var sessions []string
	for _, v := range e.Versions(t, "notes:/f") {
		sessions = append(sessions, v.Session)
	}
	if got := strings.Join(sessions, " "); got != "agent-7 agent-7 agent-7" {
		t.Errorf("the versions are of the sessions %s", got)
	}
}

// TestGatewayKeep: a process that takes over a mount has its session, and its stores as they were
// mounted, whatever credential is there at that time.
func TestGatewayKeep(t *testing.T) {
	t.Parallel()
	e := harness.NewEnv(t)
	e.Store("notes")
	e.Store("own")
	e.MustIn(t, "text\n", "write", "notes:/f")
	s := serveStores(t, e)
	s.key("host", "notes:write", "own:write")
	put := s.useFile()
	put(s.token("host", "agent-7", "notes:ro", "own"))
	e.Sessionless = true
	m := e.Mount(t, "notes", "own", "--keep")
	m.Sh(t, `echo x > ../own/f`)
	killed := func() {
		t.Helper()
		m.Sh(t, `kill -9 $(cat /proc/`+strconv.Itoa(m.PID)+`/task/*/children); cat f`)
	}
	put(s.token("host", "agent-8", "notes", "own"))
	killed()
	m.Sh(t, `set -e
for store in notes own; do
	grep -qx 'access: read-only' ../$store/.mneme/status
	grep -qx 'session: agent-7' ../$store/.mneme/status
	if (echo y > ../$store/f) 2>/dev/null; then exit 1; fi
done`)
	put(s.token("host", "agent-7", "notes", "own"))
	m.Eventually(t, `echo z > ../own/f`)
	killed()
	m.Sh(t, `set -e
echo zz > ../own/f
grep -qx 'access: read-only' .mneme/status
if (echo y > f) 2>/dev/null; then exit 1; fi`)
	for _, v := range e.Versions(t, "own:/f") {
		if v.Session != "agent-7" {
			t.Errorf("a version is of the session %s", v.Session)
		}
	}
}
