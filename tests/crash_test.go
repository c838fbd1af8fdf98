package tests

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// torture makes tests run long.
func torture() bool { return os.Getenv("MNEME_TORTURE") == "1" }

// times is how often a test repeats something.
func times(usually, tortured int) int {
	if torture() {
		return tortured
	}
	return usually
}

// crashes is a store whose daemon is killed under load again and again.
type crashes struct {
	env      *env
	at       string
	styles   []string
	steps    map[string][]*writerStep // all that were ever tried, by style
	inFlight int                      // steps cut off by a kill
	lost     int                      // of those, how many are not in the history
	sampled  int                      // versions read back one by one
	state    map[string]string        // what the store holds: path to SHA-256
}

// Nothing that close, fsync, rename or unlink acknowledged is lost when the
// daemon is killed; nothing is torn; the next mount clears the dead one.
func TestKillDaemonUnderLoad(t *testing.T) {
	for range times(1, 20) { // each looks at its whole history after every kill
		killUnderLoad(t, times(20, 50))
	}
}

func killUnderLoad(t *testing.T, cycles int) {
	e := newEnv(t)
	e.store("notes")
	c := &crashes{env: e, at: filepath.Join(e.dir, "mnt"), styles: slices.Sorted(maps.Keys(writerStyles)), steps: map[string][]*writerStep{}}
	for cycle := range cycles {
		m := e.mount(t, "notes", "--at="+c.at)
		c.check(t, m)
		cut := c.load(t, m, cycle)
		if cut == 0 {
			t.Fatalf("cycle %d: no write was in flight when the daemon was killed", cycle)
		}
		c.inFlight += cut
	}
	m := e.mount(t, "notes", "--at="+c.at)
	c.check(t, m)
	m.stop(t)
	c.checkBlobs(t)

	acked, total := 0, 0
	for _, style := range c.styles {
		n := 0
		for _, s := range c.steps[style] {
			if s.acked {
				n++
			}
		}
		if n == 0 {
			t.Errorf("style %s: nothing was acknowledged", style)
		}
		t.Logf("style %-8s %5d acknowledged of %5d", style, n, len(c.steps[style]))
		acked += n
		total += len(c.steps[style])
	}
	t.Logf("%d kills: %d steps, %d acknowledged, 0 of them lost; %d in flight at a kill, of which %d did not happen; %d versions read back",
		cycles, total, acked, c.inFlight, c.lost, c.sampled)
	if c.sampled == 0 || acked < 10*cycles {
		t.Errorf("that is too little to show anything")
	}
}

// load lets the writers write, kills the daemon, and returns how many steps
// were in flight.
func (c *crashes) load(t *testing.T, m *mount, cycle int) int {
	t.Helper()
	run := strconv.Itoa(cycle)
	journal := func(style string) string { return filepath.Join(c.env.dir, style+"-"+run+".journal") }
	var children []*child
	for _, style := range c.styles {
		children = append(children, m.child(t, "write", style, filepath.Join(m.dir, style), journal(style), run))
	}
	for i, style := range c.styles {
		c.waitAck(t, children[i], journal(style))
	}
	time.Sleep(rand.N(300 * time.Millisecond))
	killed := monotonic()
	m.kill(t)
	cut := 0
	for i, style := range c.styles {
		if err := children[i].wait(t, scriptPatience); err == nil {
			t.Errorf("%s: ended without an error", children[i].what)
		}
		steps, err := readJournal(journal(style), style, "/"+style)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range steps {
			if s.err != "" && s.ended < killed {
				t.Fatalf("cycle %d: %s: step %v failed before the kill: %s", cycle, style, s.sets, s.err)
			}
			if !s.acked && s.begun < killed {
				cut++
			}
		}
		c.steps[style] = append(c.steps[style], steps...)
	}
	return cut
}

// waitAck waits until a writer has had something acknowledged.
func (c *crashes) waitAck(t *testing.T, w *child, journal string) {
	t.Helper()
	for deadline := time.Now().Add(scriptPatience); ; time.Sleep(2 * time.Millisecond) {
		if data, _ := os.ReadFile(journal); strings.Contains(string(data), `"done":true`) {
			return
		}
		select {
		case <-w.ended:
			t.Fatalf("%s: %v\n%s", w.what, w.err, w.stderr)
		default:
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: nothing acknowledged after %v", w.what, scriptPatience)
		}
	}
}

// check compares the history with what was acknowledged, and what the store
// and the mount show with the history.
func (c *crashes) check(t *testing.T, m *mount) {
	t.Helper()
	if mounts := mountsBelow(c.at); len(mounts) != 1 {
		t.Fatalf("the mount does not take the place of the dead one: %v", mounts)
	}
	commits := c.env.commits(t, "notes")
	checkChains(t, commits)
	byWriter := map[string][]map[string]string{}
	var found []version
	for _, commit := range commits {
		sets := map[string]string{}
		style := ""
		for _, v := range commit.Versions {
			if v.Op == "renamed" {
				sets[v.From] = ""
			}
			sets[v.Path] = v.SHA256
			style, _, _ = strings.Cut(v.Path[1:], "/")
			if v.Op != "deleted" {
				found = append(found, v)
			}
		}
		byWriter[style] = append(byWriter[style], sets)
	}
	c.state = map[string]string{}
	c.lost = 0
	for _, style := range c.styles {
		c.match(t, style, byWriter[style])
	}
	if diff := cmp.Diff(c.state, c.env.listing(t, "notes")); diff != "" {
		t.Fatalf("the store does not hold what its history says (-history +store):\n%s", diff)
	}
	if diff := cmp.Diff(c.state, m.tree(t)); diff != "" {
		t.Fatalf("the mount does not show what the history says (-history +mount):\n%s", diff)
	}
	c.readBack(t, found)
}

// match walks through the steps of a writer and the commits below its
// directory: every acknowledged step is one of them, in order, and there are
// no others but those of steps that were cut off, perhaps between the close of
// a temporary file and its rename.
func (c *crashes) match(t *testing.T, style string, commits []map[string]string) {
	t.Helper()
	next := 0
	for _, s := range c.steps[style] {
		switch {
		case next < len(commits) && maps.Equal(commits[next], s.sets):
			maps.Copy(c.state, s.sets)
			next++
		case !s.acked && next < len(commits) && broughtBack(commits[next], s.sets):
			maps.Copy(c.state, commits[next])
			next++
		case s.acked:
			t.Fatalf("%s: acknowledged step %v is not in the history; there is %v", style, s.sets, commits[min(next, len(commits)):])
		default:
			c.lost++
		}
	}
	if next < len(commits) {
		t.Fatalf("%s: the history has what nobody wrote: %v", style, commits[next:])
	}
	maps.DeleteFunc(c.state, func(_, sum string) bool { return sum == "" })
}

// readBack reads some versions through the command line.
func (c *crashes) readBack(t *testing.T, found []version) {
	t.Helper()
	for range min(len(found), times(6, 30)) {
		v := found[rand.IntN(len(found))]
		if strings.HasPrefix(v.Path, "/unlink/") { // another memory may be there now
			continue
		}
		var read struct {
			version
			Content string `json:"content"`
		}
		read = decodeOne(t, c.env.must(t, "cat", "--json", "notes:"+v.Path, "--version", v.ID), read)
		if read.ID != v.ID || sumOf(read.Content) != v.SHA256 {
			t.Fatalf("version %s of %s is not what the history says: %+v", v.ID, v.Path, read.version)
		}
		c.sampled++
	}
}

// checkBlobs looks for the content of every version in the store itself.
func (c *crashes) checkBlobs(t *testing.T) {
	t.Helper()
	blobs := c.env.embeddedBlobs(t)
	checked := map[string]bool{}
	for _, commit := range c.env.commits(t, "notes") {
		for _, v := range commit.Versions {
			if v.SHA256 == "" || checked[v.SHA256] {
				continue
			}
			if data, ok := blobs[v.SHA256]; !ok || int64(len(data)) != v.Size {
				t.Errorf("blob %s of %s: it is there: %v, with %d bytes", v.SHA256, v.Path, ok, len(data))
			}
			checked[v.SHA256] = true
		}
	}
	t.Logf("%d blobs are what they should be", len(checked))
}

// A `mneme write` that is killed has written everything or nothing.
func TestKillCommandWhileItWrites(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	m := e.mount(t, "notes")
	texts := map[string]int{} // SHA-256 to the number of the write
	acked := map[int]bool{}
	n := times(60, 600)
	killed := 0
	start := time.Now()
	e.mustIn(t, "first", "write", "notes:/first.md")
	usual := time.Since(start)
	for i := range n {
		text := fmt.Sprintf("write %d\n%s", i, strings.Repeat("some text to fill a page or two\n", rand.IntN(3000)))
		texts[sumOf(text)] = i
		cmd := e.command(text, "write", "notes:/key.md")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		// Half of them within the time that one takes here and now.
		late := time.AfterFunc(rand.N(2*usual), func() { _ = cmd.Process.Kill() })
		err := cmd.Wait()
		late.Stop()
		if err != nil && cmd.ProcessState.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
			t.Fatalf("mneme write: %v", err)
		}
		acked[i] = err == nil
		if err != nil {
			killed++
		}
	}
	versions := e.versions(t, "notes:/key.md")
	if len(versions) == 0 {
		t.Fatalf("nothing was written in %d tries", n)
	}
	e.checkHistory(t, "notes:/key.md", "", "created"+strings.Repeat(" modified", len(versions)-1))
	last, unacked := -1, 0
	for _, v := range versions {
		i, ok := texts[v.SHA256]
		if !ok {
			t.Fatalf("version %s holds what nobody wrote", v.ID)
		}
		if i <= last {
			t.Errorf("write %d comes after write %d", i, last)
		}
		for between := last + 1; between < i; between++ {
			if acked[between] {
				t.Errorf("write %d was acknowledged and is not in the history", between)
			}
		}
		if !acked[i] {
			unacked++
		}
		last = i
	}
	for i := last + 1; i < n; i++ {
		if acked[i] {
			t.Errorf("write %d was acknowledged and is not in the history", i)
		}
	}
	if head := sumOf(e.must(t, "cat", "notes:/key.md")); head != versions[len(versions)-1].SHA256 {
		t.Errorf("the head is %s", head)
	}
	e.settled(t, "notes", m)
	t.Logf("%d writes, %d killed, %d of those had written", n, killed, unacked)
	if killed == 0 || killed == n {
		t.Errorf("%d of %d writes were killed, which shows nothing", killed, n)
	}
}

// holdChild keeps a file that it has written open, or a directory: "file" and
// a path, or "dir" and one. It says so in a line and waits to be killed.
func holdChild(args []string) error {
	switch args[0] {
	case "file":
		f, err := os.Create(args[1])
		if err != nil {
			return err
		}
		defer f.Close()
		if _, err := f.WriteString("not closed yet\n"); err != nil {
			return err
		}
	case "dir":
		if err := os.Chdir(args[1]); err != nil {
			return err
		}
	}
	fmt.Println("holding")
	time.Sleep(time.Minute)
	return errors.New("nobody came")
}

// SIGTERM commits what is written and not closed, even while it is in use.
func TestTerminateCommitsOpenFiles(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	m := e.mount(t, "notes")
	var holders []*child
	for i := range 5 {
		holders = append(holders, m.child(t, "hold", "file", filepath.Join(m.dir, fmt.Sprintf("open%d.md", i))))
	}
	for _, h := range holders {
		h.waitFirstLine(t, scriptPatience)
	}
	e.terminated(t, m)
	for i := range holders {
		if got := e.must(t, "cat", fmt.Sprintf("notes:/open%d.md", i)); got != "not closed yet\n" {
			t.Errorf("open%d.md holds %q", i, got)
		}
	}
	e.mount(t, "notes", "--at="+m.at).sh(t, "cat open0.md") // the place is free again
}

// SIGTERM ends a mount that is in use with exit code 0 and leaves none behind.
func TestTerminateBusyMount(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	m := e.mount(t, "notes")
	m.sh(t, "mkdir d; echo x > d/f")
	m.child(t, "hold", "dir", filepath.Join(m.dir, "d")).waitFirstLine(t, scriptPatience)
	e.terminated(t, m)
	e.checkHistory(t, "notes:/d/f", m.session, "created")
	e.mount(t, "notes", "--at="+m.at).sh(t, "cat d/f")
}

// terminated sends SIGTERM, after which the daemon exits 0 and nothing is
// mounted.
func (e *env) terminated(t *testing.T, m *mount) {
	t.Helper()
	m.over = true
	if err := syscall.Kill(m.pid, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if !m.wait(mountPatience) {
		t.Fatalf("the daemon lives on %v after SIGTERM:\n%s", mountPatience, m.goroutines())
	}
	if m.err != nil {
		t.Errorf("the daemon: %v\n%s", m.err, m.stderr)
	}
	if left := mountsBelow(m.at); len(left) > 0 {
		t.Errorf("left mounted: %v", left)
	}
}

// `mneme unmount` ends a mount; the daemon exits 0 and has saved everything.
func TestUnmountEndsDaemon(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	m := e.mount(t, "notes")
	m.sh(t, "echo one > a.md; echo two > b.tmp") // b.tmp has not lingered yet
	m.over = true
	e.must(t, "unmount", "--at", m.at)
	if !m.wait(mountPatience) || m.err != nil {
		t.Fatalf("the daemon: %v\n%s", m.err, m.stderr)
	}
	if left := mountsBelow(m.at); len(left) > 0 {
		t.Errorf("left mounted: %v", left)
	}
	e.checkHistory(t, "notes:/a.md", m.session, "created")
	e.checkHistory(t, "notes:/b.tmp", m.session, "created")
}

// `mneme unmount` ends a mount that is in use, and says who used it.
func TestUnmountBusy(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	m := e.mount(t, "notes")
	h := m.child(t, "hold", "dir", m.dir)
	h.waitFirstLine(t, scriptPatience)
	m.over = true
	r := e.mneme("unmount", "--at", m.at)
	if r.code != 0 || !strings.Contains(r.stdout, strconv.Itoa(h.cmd.Process.Pid)) {
		t.Errorf("unmount of a mount in use: %v", r)
	}
	if !m.wait(mountPatience) || m.err != nil {
		t.Errorf("the daemon: %v\n%s", m.err, m.stderr)
	}
}

// A mount whose daemon was killed is shown by `mneme status` and cleared by
// `mneme unmount`.
func TestDeadMountIsShownAndCleared(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	m := e.mount(t, "notes")
	m.sh(t, "echo x > f")
	if got := e.mountShown(t, m.at); got == nil || !got.Alive || got.PID != m.pid {
		t.Errorf("a mount in use is shown as %+v", got)
	}
	m.kill(t)
	if got := e.mountShown(t, m.at); got == nil || got.Alive {
		t.Errorf("a dead mount is shown as %+v", got)
	}
	if text := e.must(t, "status"); !strings.Contains(text, "dead") || !strings.Contains(text, m.at) {
		t.Errorf("status does not say that the mount is dead:\n%s", text)
	}
	e.must(t, "unmount", "--at", m.at)
	if got := e.mountShown(t, m.at); got != nil {
		t.Errorf("a mount that is gone is shown as %+v", got)
	}
	if left := mountsBelow(m.at); len(left) > 0 {
		t.Errorf("left mounted: %v", left)
	}
	if r := e.mneme("unmount", "--at", m.at); r.code != 3 {
		t.Errorf("unmount of what is not mounted: %v", r)
	}
	e.mount(t, "notes", "--at="+m.at).sh(t, "cat f")
}

type shownMount struct {
	Dir   string `json:"dir"`
	PID   int    `json:"pid"`
	Alive bool   `json:"alive"`
}

// mountShown is what `mneme status` says of a mount, or nil.
func (e *env) mountShown(t *testing.T, at string) *shownMount {
	t.Helper()
	var status struct {
		Mounts []*shownMount `json:"mounts"`
	}
	status = decodeOne(t, e.must(t, "status", "--json"), status)
	for _, m := range status.Mounts {
		if m.Dir == at {
			return m
		}
	}
	return nil
}

func decodeOne[T any](t testing.TB, text string, _ T) T {
	t.Helper()
	all := decodeLines[T](t, text)
	if len(all) != 1 {
		t.Fatalf("want one line of JSON, got %d:\n%s", len(all), text)
	}
	return all[0]
}
