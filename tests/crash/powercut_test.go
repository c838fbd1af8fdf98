package crash

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"mneme/internal/testing/crashfs"
	"mneme/tests/harness"
	"mneme/versionlog/sqlitelog"
)

// powerCut is an embedded store on a disk that can be looked at as it would be after a power cut
// at any moment. The times of acknowledgements are noted outside.
type powerCut struct {
	env     *harness.Env
	disk    *crashfs.FS
	random  *rand.Rand
	steward *steward
	steps   []*cutStep
	heads   map[string][]string // paths that are there, by store; after a kill none is sure
	kills   int
	run     int // number of the steward, and of a directory of its own for its output
}

// cutStep is one commit, or the making of a store.
type cutStep struct {
	store string
	sets  string // what it changes, see setsOf; "" for the making of the store
	begun int    // calls in the journal before it
	acked int    // calls in the journal when it was acknowledged; 0 if it never was
}

func (s *cutStep) String() string {
	return fmt.Sprintf("%s in store %s, begun after call %d, acknowledged after call %d", s.sets, s.store, s.begun, s.acked)
}

// setsOf writes down which paths get which content, in order; "" is none.
func setsOf(sets map[string]string) string {
	var b strings.Builder
	for _, path := range slices.Sorted(maps.Keys(sets)) {
		fmt.Fprintf(&b, "%s=%.16s ", path, sets[path])
	}
	return b.String()
}

// newPowerCut mounts the disk and makes the first store on it.
func newPowerCut(t *testing.T, seed uint64) *powerCut {
	t.Helper()
	e := harness.NewEnv(t)
	at := filepath.Join(e.Dir, "disk")
	if err := os.Mkdir(at, 0o755); err != nil {
		t.Fatal(err)
	}
	disk, err := crashfs.Mount(at)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := disk.Unmount(); err != nil {
			t.Errorf("unmount the disk: %v", err)
		}
	})
	e.Stores = filepath.Join(at, "mneme")
	p := &powerCut{env: e, disk: disk, random: rand.New(rand.NewPCG(1, seed)), heads: map[string][]string{}}
	p.makeStore(t, "notes")
	return p
}

func (p *powerCut) makeStore(t *testing.T, name string) {
	t.Helper()
	s := p.begin(name, nil)
	p.env.Must(t, "store", "create", name, "--max-memory-bytes=300000")
	s.acked = p.disk.Len()
	p.heads[name] = nil
}

func (p *powerCut) begin(store string, sets map[string]string) *cutStep {
	s := &cutStep{store: store, sets: setsOf(sets), begun: p.disk.Len()}
	p.steps = append(p.steps, s)
	return s
}

// work makes that many commits in all the ways there are.
func (p *powerCut) work(t *testing.T, commits int) {
	t.Helper()
	p.steward = startSteward(t, p.env)
	for i := range commits {
		if i == commits/3 {
			p.makeStore(t, "other")
		}
		store := pickOf(p.random, slices.Sorted(maps.Keys(p.heads)))
		switch n := p.random.IntN(20); {
		case n < 10:
			p.batch(t, store)
		case n < 15:
			p.write(t, store, false)
		case n < 17:
			p.write(t, store, true)
		case n < 19:
			p.both(t, store)
		default:
			p.killSteward(t, store)
		}
	}
	if err := p.steward.wait(false); err != nil {
		t.Error(err)
	}
}

func pickOf[T any](random *rand.Rand, from []T) T { return from[random.IntN(len(from))] }

// text is new content, one in four longer than a page, one in six so long that
// it becomes a file of its own.
func (p *powerCut) text() string {
	text := fmt.Sprintf("content %x\n", p.random.Uint64())
	line, n := "more of it\n", 0
	switch p.random.IntN(12) {
	case 0, 1, 2:
		n = p.random.IntN(2000)
	case 3, 4:
		n = sqlitelog.MaxContent/len(line) + p.random.IntN(2000)
	}
	return text + strings.Repeat(line, n)
}

// next makes up a batch of one to three changes and says what it leads to.
func (p *powerCut) next(store string) (order, map[string]string) {
	o, sets := order{Store: store}, map[string]string{}
	for range 1 + p.random.IntN(3) {
		var there []string // and not touched by this batch
		for _, path := range p.heads[store] {
			if _, ok := sets[path]; !ok {
				there = append(there, path)
			}
		}
		path := fmt.Sprintf("/%d/d%d/f%d", p.run, p.random.IntN(3), p.random.IntN(40))
		if _, ok := sets[path]; ok {
			continue
		}
		switch n := p.random.IntN(8); {
		case n < 2 && len(there) > 0:
			gone := pickOf(p.random, there)
			o.Changes = append(o.Changes, change{Path: gone, Gone: true})
			sets[gone] = ""
		case n < 3 && len(there) > 0:
			text := p.text()
			path = pickOf(p.random, there)
			o.Changes = append(o.Changes, change{Path: path, Text: text})
			sets[path] = harness.SumOf(text)
		default:
			text := p.text()
			o.Changes = append(o.Changes, change{Path: path, Text: text})
			sets[path] = harness.SumOf(text)
		}
	}
	return o, sets
}

// became notes what is there after an acknowledged step.
func (p *powerCut) became(store string, sets map[string]string) {
	heads := slices.DeleteFunc(p.heads[store], func(path string) bool { _, ok := sets[path]; return ok })
	for _, path := range slices.Sorted(maps.Keys(sets)) {
		if sets[path] != "" {
			heads = append(heads, path)
		}
	}
	p.heads[store] = heads
}

// batch has the steward commit, sometimes a rename.
func (p *powerCut) batch(t *testing.T, store string) {
	t.Helper()
	o, sets := p.next(store)
	if p.random.IntN(4) == 0 {
		text := p.text()
		from := fmt.Sprintf("/%d/from%d", p.run, len(p.steps))
		put := map[string]string{from: harness.SumOf(text)}
		p.must(t, order{Store: store, Changes: []change{{Path: from, Text: text}}}, put)
		o = order{Store: store, Changes: []change{{Path: from, To: from + ".moved"}}}
		sets = map[string]string{from: "", from + ".moved": harness.SumOf(text)}
	}
	p.must(t, o, sets)
}

func (p *powerCut) must(t *testing.T, o order, sets map[string]string) {
	t.Helper()
	s := p.begin(o.Store, sets)
	if !p.steward.do(o) {
		t.Fatalf("%+v is not acknowledged; %v", o, p.steward.wait(false))
	}
	s.acked = p.disk.Len()
	p.became(o.Store, sets)
}

// killSteward kills the steward in the middle of a commit and starts another.
func (p *powerCut) killSteward(t *testing.T, store string) {
	t.Helper()
	p.disk.After(1+p.random.IntN(12), p.steward.kill)
	for {
		o, sets := p.next(store)
		s := p.begin(store, sets)
		if !p.steward.do(o) {
			break
		}
		s.acked = p.disk.Len()
		p.became(store, sets)
	}
	if err := p.steward.wait(true); err != nil {
		t.Fatal(err)
	}
	p.kills++
	p.run++
	for name := range p.heads {
		p.heads[name] = nil
	}
	p.steward = startSteward(t, p.env)
}

// write has the command line write a new file; it may be killed while it does.
func (p *powerCut) write(t *testing.T, store string, kill bool) {
	t.Helper()
	path, text := fmt.Sprintf("/cli/f%d", len(p.steps)), p.text()
	s := p.begin(store, map[string]string{path: harness.SumOf(text)})
	cmd := p.env.Command(text, "write", store+":"+path)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if kill {
		p.disk.After(1+p.random.IntN(30), func() { _ = cmd.Process.Kill() })
	}
	err := cmd.Wait()
	p.disk.After(0, nil)
	if status := cmd.ProcessState.Sys().(syscall.WaitStatus); err != nil && kill && status.Signal() == syscall.SIGKILL {
		p.kills++
		return
	}
	if err != nil {
		t.Fatalf("mneme write: %v", err)
	}
	s.acked = p.disk.Len()
}

// both has the command line and the steward commit at the same time.
func (p *powerCut) both(t *testing.T, store string) {
	t.Helper()
	o, sets := p.next(store)
	var work sync.WaitGroup
	byCommand, bySteward := fmt.Sprintf("/both/f%d", len(p.steps)), p.begin(store, sets)
	text := p.text()
	s := p.begin(store, map[string]string{byCommand: harness.SumOf(text)})
	work.Go(func() {
		if r := p.env.MnemeIn(t, text, "write", store+":"+byCommand); r.Code != 0 {
			t.Errorf("mneme write: %v", r)
		}
		s.acked = p.disk.Len()
	})
	if !p.steward.do(o) {
		t.Errorf("%+v is not acknowledged; %v", o, p.steward.wait(false))
	}
	bySteward.acked = p.disk.Len()
	p.became(store, sets)
	work.Wait()
	if t.Failed() {
		t.FailNow()
	}
}
