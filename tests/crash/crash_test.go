package crash

import (
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

	"mneme/tests/harness"
)

// crashes is a store whose daemon is killed under load again and again.
type crashes struct {
	env      *harness.Env
	at       string
	styles   []string
	steps    map[string][]*harness.WriterStep // all that were ever tried, by style
	inFlight int                              // steps cut off by a kill
	lost     int                              // of those, how many are not in the history
	sampled  int                              // versions read back one by one
	state    map[string]string                // what the store holds: path to SHA-256
}

// Nothing that close, fsync, rename or unlink acknowledged is lost when the
// daemon is killed; nothing is torn; the next mount clears the dead one.
func TestKillDaemonUnderLoad(t *testing.T) {
	for range harness.Times(1, 20) { // each looks at its whole history after every kill
		killUnderLoad(t, harness.Times(20, 50))
	}
}

func killUnderLoad(t *testing.T, cycles int) {
	e := harness.NewEnv(t)
	e.Store("notes")
	c := &crashes{env: e, at: filepath.Join(e.Dir, "mnt"), styles: slices.Sorted(maps.Keys(harness.WriterStyles)), steps: map[string][]*harness.WriterStep{}}
	for cycle := range cycles {
		m := e.Mount(t, "notes", "--at="+c.at)
		c.check(t, m)
		cut := c.load(t, m, cycle)
		if cut == 0 {
			t.Fatalf("cycle %d: no write was in flight when the daemon was killed", cycle)
		}
		c.inFlight += cut
	}
	m := e.Mount(t, "notes", "--at="+c.at)
	c.check(t, m)
	m.Stop(t)
	c.checkBlobs(t)

	acked, total := 0, 0
	for _, style := range c.styles {
		n := 0
		for _, s := range c.steps[style] {
			if s.Acked {
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
func (c *crashes) load(t *testing.T, m *harness.Mount, cycle int) int {
	t.Helper()
	run := strconv.Itoa(cycle)
	journal := func(style string) string { return filepath.Join(c.env.Dir, style+"-"+run+".journal") }
	var children []*harness.Child
	for _, style := range c.styles {
		children = append(children, m.Child(t, "write", style, filepath.Join(m.Dir, style), journal(style), run))
	}
	for i, style := range c.styles {
		c.waitAck(t, children[i], journal(style))
	}
	time.Sleep(rand.N(300 * time.Millisecond))
	killed := harness.Monotonic()
	m.Kill(t)
	cut := 0
	for i, style := range c.styles {
		if err := children[i].Wait(t, harness.ScriptPatience); err == nil {
			t.Errorf("%s: ended without an error", children[i].What)
		}
		steps, err := harness.ReadJournal(journal(style), style, "/"+style)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range steps {
			if s.Err != "" && s.Ended < killed {
				t.Fatalf("cycle %d: %s: step %v failed before the kill: %s", cycle, style, s.Sets, s.Err)
			}
			if !s.Acked && s.Begun < killed {
				cut++
			}
		}
		c.steps[style] = append(c.steps[style], steps...)
	}
	return cut
}

// waitAck waits until a writer has had something acknowledged.
func (c *crashes) waitAck(t *testing.T, w *harness.Child, journal string) {
	t.Helper()
	for deadline := time.Now().Add(harness.ScriptPatience); ; time.Sleep(2 * time.Millisecond) {
		if data, _ := os.ReadFile(journal); strings.Contains(string(data), `"done":true`) {
			return
		}
		select {
		case <-w.Ended:
			t.Fatalf("%s: %v\n%s", w.What, w.Err, w.Stderr)
		default:
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: nothing acknowledged after %v", w.What, harness.ScriptPatience)
		}
	}
}

// check compares the history with what was acknowledged, and what the store
// and the mount show with the history.
func (c *crashes) check(t *testing.T, m *harness.Mount) {
	t.Helper()
	if mounts := harness.MountsBelow(c.at); len(mounts) != 1 {
		t.Fatalf("the mount does not take the place of the dead one: %v", mounts)
	}
	commits := c.env.Commits(t, "notes")
	harness.CheckChains(t, commits)
	byWriter := map[string][]map[string]string{}
	var found []harness.Version
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
	if diff := cmp.Diff(c.state, c.env.Listing(t, "notes")); diff != "" {
		t.Fatalf("the store does not hold what its history says (-history +store):\n%s", diff)
	}
	if diff := cmp.Diff(c.state, m.Tree(t)); diff != "" {
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
		case next < len(commits) && maps.Equal(commits[next], s.Sets):
			maps.Copy(c.state, s.Sets)
			next++
		case !s.Acked && next < len(commits) && broughtBack(commits[next], s.Sets):
			maps.Copy(c.state, commits[next])
			next++
		case s.Acked:
			t.Fatalf("%s: acknowledged step %v is not in the history; there is %v", style, s.Sets, commits[min(next, len(commits)):])
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
func (c *crashes) readBack(t *testing.T, found []harness.Version) {
	t.Helper()
	for range min(len(found), harness.Times(6, 30)) {
		v := found[rand.IntN(len(found))]
		if strings.HasPrefix(v.Path, "/unlink/") { // another memory may be there now
			continue
		}
		var read struct {
			harness.Version
			Content string `json:"content"`
		}
		read = harness.DecodeOne(t, c.env.Must(t, "cat", "--json", "notes:"+v.Path, "--version", v.ID), read)
		if read.ID != v.ID || harness.SumOf(read.Content) != v.SHA256 {
			t.Fatalf("version %s of %s is not what the history says: %+v", v.ID, v.Path, read.Version)
		}
		c.sampled++
	}
}

// checkBlobs looks for the content of every version in the store itself.
func (c *crashes) checkBlobs(t *testing.T) {
	t.Helper()
	blobs := c.env.EmbeddedBlobs(t)
	checked := map[string]bool{}
	for _, commit := range c.env.Commits(t, "notes") {
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
	e := harness.NewEnv(t)
	m := e.Mount(t, "notes")
	texts := map[string]int{} // SHA-256 to the number of the write
	acked := map[int]bool{}
	n := harness.Times(60, 600)
	killed := 0
	var usual time.Duration
	for i := range n {
		text := fmt.Sprintf("write %d\n%s", i, strings.Repeat("some text to fill a page or two\n", rand.IntN(3000)))
		texts[harness.SumOf(text)] = i
		if i%10 == 0 { // this one is not killed
			start := time.Now()
			e.MustIn(t, text, "write", "notes:/key.md")
			usual, acked[i] = time.Since(start), true
			continue
		}
		cmd := e.Command(text, "write", "notes:/key.md")
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
	versions := e.Versions(t, "notes:/key.md")
	if len(versions) == 0 {
		t.Fatalf("nothing was written in %d tries", n)
	}
	e.CheckHistory(t, "notes:/key.md", "", "created"+strings.Repeat(" modified", len(versions)-1))
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
	if head := harness.SumOf(e.Must(t, "cat", "notes:/key.md")); head != versions[len(versions)-1].SHA256 {
		t.Errorf("the head is %s", head)
	}
	e.Settled(t, "notes", m)
	t.Logf("%d writes, %d killed, %d of those had written", n, killed, unacked)
	if killed == 0 {
		t.Errorf("none of %d writes was killed, which shows nothing", n)
	}
}

// SIGTERM commits what is written and not closed, even while it is in use.
func TestTerminateCommitsOpenFiles(t *testing.T) {
	t.Parallel()
	e := harness.NewEnv(t)
	m := e.Mount(t, "notes")
	var holders []*harness.Child
	for i := range 5 {
		holders = append(holders, m.Child(t, "hold", "file", filepath.Join(m.Dir, fmt.Sprintf("open%d.md", i))))
	}
	for _, h := range holders {
		h.WaitFirstLine(t, harness.ScriptPatience)
	}
	terminated(t, e, m)
	for i := range holders {
		if got := e.Must(t, "cat", fmt.Sprintf("notes:/open%d.md", i)); got != "not closed yet\n" {
			t.Errorf("open%d.md holds %q", i, got)
		}
	}
	e.Mount(t, "notes", "--at="+m.At).Sh(t, "cat open0.md") // the place is free again
}

// SIGTERM ends a mount that is in use with exit code 0 and leaves none behind.
func TestTerminateBusyMount(t *testing.T) {
	t.Parallel()
	e := harness.NewEnv(t)
	m := e.Mount(t, "notes")
	m.Sh(t, "mkdir d; echo x > d/f")
	m.Child(t, "hold", "dir", filepath.Join(m.Dir, "d")).WaitFirstLine(t, harness.ScriptPatience)
	terminated(t, e, m)
	e.CheckHistory(t, "notes:/d/f", m.Session, "created")
	e.Mount(t, "notes", "--at="+m.At).Sh(t, "cat d/f")
}

// terminated sends SIGTERM, after which the daemon exits 0 and nothing is
// mounted.
func terminated(t *testing.T, e *harness.Env, m *harness.Mount) {
	t.Helper()
	m.Over = true
	if err := syscall.Kill(m.PID, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if !m.Wait(harness.MountPatience) {
		t.Fatalf("the daemon lives on %v after SIGTERM:\n%s", harness.MountPatience, m.Goroutines())
	}
	if m.Err != nil {
		t.Errorf("the daemon: %v\n%s", m.Err, m.Stderr)
	}
	if left := harness.MountsBelow(m.At); len(left) > 0 {
		t.Errorf("left mounted: %v", left)
	}
}

// `mneme unmount` ends a mount; the daemon exits 0 and has saved everything.
func TestUnmountEndsDaemon(t *testing.T) {
	t.Parallel()
	e := harness.NewEnv(t)
	m := e.Mount(t, "notes")
	m.Sh(t, "echo one > a.md; echo two > b.tmp") // b.tmp has not lingered yet
	m.Over = true
	e.Must(t, "unmount", "--at", m.At)
	if !m.Wait(harness.MountPatience) || m.Err != nil {
		t.Fatalf("the daemon: %v\n%s", m.Err, m.Stderr)
	}
	if left := harness.MountsBelow(m.At); len(left) > 0 {
		t.Errorf("left mounted: %v", left)
	}
	e.CheckHistory(t, "notes:/a.md", m.Session, "created")
	e.CheckHistory(t, "notes:/b.tmp", m.Session, "created")
}

// `mneme unmount` ends a mount that is in use, and names the processes that used it.
func TestUnmountBusy(t *testing.T) {
	t.Parallel()
	e := harness.NewEnv(t)
	m := e.Mount(t, "notes")
	h := m.Child(t, "hold", "dir", m.Dir)
	h.WaitFirstLine(t, harness.ScriptPatience)
	m.Over = true
	r := e.Mneme("unmount", "--at", m.At)
	if r.Code != 0 || !strings.Contains(r.Stdout, strconv.Itoa(h.Cmd.Process.Pid)) {
		t.Errorf("unmount of a mount in use: %v", r)
	}
	if !m.Wait(harness.MountPatience) || m.Err != nil {
		t.Errorf("the daemon: %v\n%s", m.Err, m.Stderr)
	}
}

// A mount whose daemon was killed is shown by `mneme status` and cleared by
// `mneme unmount`.
func TestDeadMountIsShownAndCleared(t *testing.T) {
	t.Parallel()
	e := harness.NewEnv(t)
	m := e.Mount(t, "notes")
	m.Sh(t, "echo x > f")
	if got := mountShown(t, e, m.At); got == nil || !got.Alive || got.PID != m.PID {
		t.Errorf("a mount in use is shown as %+v", got)
	}
	m.Kill(t)
	if got := mountShown(t, e, m.At); got == nil || got.Alive {
		t.Errorf("a dead mount is shown as %+v", got)
	}
	if text := e.Must(t, "status"); !strings.Contains(text, "dead") || !strings.Contains(text, m.At) {
		t.Errorf("status does not say that the mount is dead:\n%s", text)
	}
	e.Must(t, "unmount", "--at", m.At)
	if got := mountShown(t, e, m.At); got != nil {
		t.Errorf("a mount that is gone is shown as %+v", got)
	}
	if left := harness.MountsBelow(m.At); len(left) > 0 {
		t.Errorf("left mounted: %v", left)
	}
	if r := e.Mneme("unmount", "--at", m.At); r.Code != 3 {
		t.Errorf("unmount of what is not mounted: %v", r)
	}
	e.Mount(t, "notes", "--at="+m.At).Sh(t, "cat f")
}

type shownMount struct {
	Dir   string `json:"dir"`
	PID   int    `json:"pid"`
	Alive bool   `json:"alive"`
}

// mountShown is what `mneme status` says of a mount, or nil.
func mountShown(t *testing.T, e *harness.Env, at string) *shownMount {
	t.Helper()
	var status struct {
		Mounts []*shownMount `json:"mounts"`
	}
	status = harness.DecodeOne(t, e.Must(t, "status", "--json"), status)
	for _, m := range status.Mounts {
		if m.Dir == at {
			return m
		}
	}
	return nil
}
