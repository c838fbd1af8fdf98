package hostile

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"mneme/tests/harness"
)

// Each run of TestSystemCalls makes as many calls of any by each thread. It takes some
// 5 s on 2 cores.
const (
	callers       = 3    // processes
	callerThreads = 3    // of each
	callsEach     = 2000 // of each thread
)

// torture makes tests run long.
func torture() bool { return os.Getenv("MNEME_TORTURE") == "1" }

// runsOf is how often a random test runs, from which seed on, and until when: as often
// as it says, always the same; or, as torture, from any seed for an hour. MNEME_RUNS and
// MNEME_SEED say otherwise.
func runsOf(t *testing.T, short uint64) (runs, first uint64, end time.Time) {
	number := func(name string, otherwise uint64) uint64 {
		if n, err := strconv.ParseUint(os.Getenv(name), 10, 64); err == nil {
			return n
		}
		return otherwise
	}
	runs, first, end = short, 1, time.Now().AddDate(1, 0, 0)
	if torture() {
		runs, first, end = 1<<40, rand.Uint64(), time.Now().Add(time.Hour)
	}
	if asked := number("MNEME_RUNS", 0); asked != 0 {
		runs, end = asked, time.Now().AddDate(1, 0, 0)
	}
	first = number("MNEME_SEED", first)
	t.Logf("MNEME_SEED=%d", first)
	return runs, first, end
}

// battlefield is two stores in four mounts of the agent's.
type battlefield struct {
	*place
	mounts  map[string]*target
	changes *rand.Rand // of the other session
}

// target is one of the mounts.
type target struct {
	dir    string
	pid    int   // of the process that was asked for
	serves int   // of the one that answers requests
	budget int64 // bytes
}

func newBattlefield(t *testing.T, seed uint64) *battlefield {
	b := &battlefield{place: newPlace(t, "python3"), mounts: map[string]*target{}, changes: rand.New(rand.NewPCG(seed, 1<<33))}
	b.Cleanup(func() {
		if t.Failed() {
			t.Logf("the daemons' logs:\n%.30000s", b.logs())
		}
	})
	b.must("store", "create", "one")
	b.must("store", "create", "two", "--content", "any", "--max-memory-bytes", "1MiB")
	for _, m := range []struct {
		name   string
		budget int64
		flags  []string
	}{
		{"plain", 64 << 20, nil},
		{"keep", 64 << 20, []string{"--keep"}},
		{"small", 8 << 20, []string{"--quota-bytes=2MiB", "--quota-memories=60", "--quota-versions=300"}},
		{"read", 64 << 20, []string{"--read-only"}},
	} {
		args := append([]string{"one", "two", "--owner", "3001:3001", fmt.Sprint("--max-memory=", m.budget)}, m.flags...)
		dir, pid := b.mount(m.name, args...)
		target := &target{dir: dir, pid: pid, serves: pid, budget: m.budget}
		if m.name == "keep" {
			target.serves = harness.Children(t, pid)[0]
		}
		b.mounts[m.name] = target
	}
	return b
}

// names are those of the mounts.
func (b *battlefield) names() []string { return slices.Sorted(maps.Keys(b.mounts)) }

// trees are the directories of all stores in all mounts.
func (b *battlefield) trees() (trees []string) {
	for _, name := range b.names() {
		trees = append(trees, b.mounts[name].dir+"/one", b.mounts[name].dir+"/two")
	}
	return trees
}

// attack starts a process that makes calls. The function that it returns waits for the process
// and returns the calls.
func (b *battlefield) attack(binary string, o order) (ended func() map[string]made) {
	text, err := json.Marshal(o)
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*longestCall)
	cmd := b.command(ctx, agent, binary)
	cmd.Env = append(cmd.Env, callsOrder+"="+string(text), harness.RaceVariable+"="+os.Getenv(harness.RaceVariable))
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		done <- cmd.Wait()
		cancel()
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // what it has started, if it has not ended well
	}()
	return func() (all map[string]made) {
		if err := <-done; err != nil && !errors.Is(err, exec.ErrWaitDelay) {
			b.Errorf("a process that makes calls: %v\n%.20000s", err, stderr.String())
		} else if err := json.Unmarshal(stdout.Bytes(), &all); err != nil {
			b.Errorf("what a process made of its calls is %q", stdout.String())
		}
		return all
	}
}

// change makes a change by another session, which may fail, but not for a store that
// is damaged, nor by a panic.
func (b *battlefield) change() {
	name := func() string {
		return pickFrom(b.changes, "one", "two") + ":/" + pickFrom(b.changes, "a", "b", "c.md", "d/a", "d/e/a", "e", "d")
	}
	from := name()
	var script string
	switch b.changes.IntN(6) {
	case 0:
		script = "mneme rm " + from
	case 1:
		script = "mneme rm -r " + from
	case 2:
		store, _, _ := strings.Cut(from, ":")
		_, to, _ := strings.Cut(name(), ":")
		script = "mneme mv " + from + " " + store + ":" + to
	default:
		script = fmt.Sprintf("echo other %d | mneme write %s", b.changes.IntN(1000), from)
	}
	if r := b.try(0, script); r.code >= 7 || strings.Contains(r.stderr, "goroutine ") {
		b.Errorf("%s beside the calls: %v", script, r)
	}
}

func pickFrom(random *rand.Rand, from ...string) string { return from[random.IntN(len(from))] }

// wantHeld checks that no mount holds more than it may.
func (b *battlefield) wantHeld() {
	b.Helper()
	for _, name := range b.names() {
		m := b.mounts[name]
		status := b.sh(agent, "cat "+m.dir+"/one/.mneme/status")
		var held, limit int64
		found := regexp.MustCompile(`(?m)^held-bytes: .*$`).FindString(status)
		if _, err := fmt.Sscanf(found, "held-bytes: %d of %d", &held, &limit); err != nil {
			b.Errorf("%s: status has %q", name, status)
		} else if held < 0 || held > limit || limit != m.budget {
			b.Errorf("%s holds %d of %d bytes, of which it may have %d", name, held, limit, m.budget)
		}
	}
}

// wantAlive checks that the processes that served the mounts still do, with no more
// memory than they may have.
func (b *battlefield) wantAlive(t *testing.T) {
	t.Helper()
	const base = 150 // MiB; what it takes for requests and the tree, and its garbage
	for _, name := range b.names() {
		m := b.mounts[name]
		for _, pid := range []int{m.pid, m.serves} {
			if err := syscall.Kill(pid, 0); err != nil {
				b.Fatalf("%s: the process that served it is gone", name)
			}
		}
		if most := resident(t, m.serves); !harness.Raced(t) && most > base+int(m.budget>>20) {
			t.Errorf("%s: the daemon had %d MiB", name, most)
		}
	}
	if found := regexp.MustCompile(`(?m)^(panic:|fatal error:|WARNING: DATA RACE|goroutine \d).*$`).FindString(b.logs()); found != "" {
		t.Errorf("a log has %q", found)
	}
}

// logs are what the daemons have written, the end of each.
func (b *battlefield) logs() string {
	return b.sh(0, `tail -c 20000 home/.local/state/mneme/*.log`)
}

// wantSaves checks that the agent can save in each mount that may write, or is told
// that its quota is spent.
func (b *battlefield) wantSaves() {
	b.Helper()
	for _, name := range b.names() {
		m := b.mounts[name]
		if name == "read" {
			continue
		}
		for _, store := range []string{"one", "two"} {
			r := b.try(agent, fmt.Sprintf("cd %s/%s; cat saved-%s 2>&- || true; echo again > saved-%s || exit 1; sync saved-%[3]s; cat saved-%[3]s", m.dir, store, name, name))
			switch {
			case name == "small" && strings.Contains(r.stderr, "Disk quota exceeded"):
			case r.code != 0 || r.stdout != "again\n":
				b.Errorf("saving in %s/%s: %v", name, store, r)
			case b.must("cat", store+":/saved-"+name) != "again\n":
				b.Errorf("%s/%s: what was saved is not in the store", name, store)
			}
		}
	}
}

// unmount unmounts all, where a process has files open in one of them that cannot be
// committed: a scratch file, of which unmounting tells, and one that another session
// has changed. Both are kept.
func (b *battlefield) unmount() {
	b.Helper()
	b.sh(agent, "find plain/one -mindepth 1 -delete || true") // to make room for scratch files
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	holder := b.command(ctx, agent, "/usr/bin/env", "python3", "-c", `import os, sys, time
for name in "held", "held~":
    os.write(os.open(sys.argv[1] + "/" + name, os.O_CREAT | os.O_RDWR), b"mine\n")
print("ready", file=sys.stderr, flush=True)
time.sleep(1000)`, b.mounts["plain"].dir+"/one")
	out, err := holder.StderrPipe()
	if err == nil {
		err = holder.Start()
	}
	if err != nil {
		b.Fatal(err)
	}
	said := make([]byte, len("ready\n"))
	if _, err := io.ReadFull(out, said); err != nil || string(said) != "ready\n" {
		rest, _ := io.ReadAll(out)
		b.Fatalf("a process with files open: %v\n%s%s", err, said, rest)
	}
	b.sh(0, "echo theirs | mneme write one:/held")
	for _, name := range b.names() {
		text := b.must("unmount", "--at", b.mounts[name].dir)
		if name == "plain" && !strings.Contains(text, "Not in the history, but kept: one:/held~ ") {
			b.Errorf("unmount of %s says\n%s", name, text)
		}
	}
	_ = syscall.Kill(-holder.Process.Pid, syscall.SIGKILL)
	_ = holder.Wait()
	if list := b.must("conflicts", "list", "one", "--json"); !strings.Contains(list, `"/held"`) {
		b.Errorf("the conflicts of one are\n%s", list)
	}
}

// essential are calls without which the runs show nothing.
var essential = []string{
	"openat", "write", "pwrite64", "writev", "read", "ftruncate", "truncate", "fsync", "close", "dup3", "rename", "renameat2", "mkdirat", "unlinkat",
	"fchmod", "utimensat", "listxattr", "flock", "fcntl", "mmap", "msync", "splice", "getdents64",
	"statx", "statfs", "chdir", "fanotify_mark",
}

// TestSystemCalls: whatever system calls an agent makes, with whatever arguments, in
// several processes and threads that are interrupted and killed, beside another session:
// every call ends, no daemon does, none holds more memory than it may, saves go on, the
// stores are sound, and unmounting says what was kept. A seed chooses the calls; which
// call meets which, and which descriptors are open then, the scheduler chooses.
func TestSystemCalls(t *testing.T) { harness.EachDaemon(t, systemCalls) }

func systemCalls(t *testing.T) {
	runs, first, end := runsOf(t, shortRuns(t))
	total := map[string]made{}
	for i := uint64(0); i < runs && time.Now().Before(end) && !t.Failed(); i++ {
		seed := first + i
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			b := newBattlefield(t, seed)
			binary := filepath.Join(b.dir, "calls")
			b.sh(0, fmt.Sprintf("cp /proc/%d/exe %s", os.Getpid(), binary))
			b.sh(agent, "for tree in "+strings.Join(b.trees(), " ")+"; do cd $tree; mkdir -p d/e 2>&- && echo text | tee a b d/a > c.md; done || true")
			var waits []func() map[string]made
			for process := range callers {
				waits = append(waits, b.attack(binary, order{Seed: seed<<8 + uint64(process), Trees: b.trees(), Threads: callerThreads, Calls: callsEach}))
			}
			ended := make(chan map[string]made)
			go func() {
				all := map[string]made{}
				for _, wait := range waits {
					addCalls(all, wait())
				}
				ended <- all
			}()
			addCalls(total, b.judge(t, ended))
		})
	}
	calls, succeeded := 0, 0
	for _, name := range slices.Sorted(maps.Keys(total)) {
		calls, succeeded = calls+total[name].Calls, succeeded+total[name].Successes
		t.Logf("%8d %8d %s", total[name].Calls, total[name].Successes, name)
	}
	t.Logf("%d calls, of which %d succeeded", calls, succeeded)
	for _, name := range essential {
		if total[name].Successes == 0 && !t.Failed() {
			t.Errorf("none of %d calls of %s succeeded", total[name].Calls, name)
		}
	}
}

func addCalls(all, more map[string]made) {
	for name, n := range more {
		all[name] = made{all[name].Calls + n.Calls, all[name].Successes + n.Successes}
	}
}

// judge makes the other session's changes until all calls have ended, checks what is
// left, and returns the calls.
func (b *battlefield) judge(t *testing.T, ended <-chan map[string]made) (all map[string]made) {
	for i := 0; all == nil; i++ {
		select {
		case all = <-ended:
		default:
			b.change()
			if i%10 == 0 {
				b.wantHeld()
			}
		}
	}
	b.wantAlive(t)
	b.wantHeld()
	b.wantSaves()
	b.unmount()
	if r := b.mneme(0, "fsck"); cmp.Or(r.code, strings.Count(r.stderr, "goroutine ")) != 0 {
		t.Errorf("fsck: %v", r)
	}
	return all
}

// shortRuns is how often TestSystemCalls runs if no more runs are asked for.
func shortRuns(t *testing.T) uint64 {
	if harness.Raced(t) {
		return 2
	}
	if harness.BothDaemons() {
		return 3
	}
	return 5
}
