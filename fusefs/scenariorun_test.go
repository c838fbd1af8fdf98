package fusefs

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"mneme/internal/testing/logfault"
	"mneme/spool"
)

// run is a scenario in play.
type run struct {
	*rig
	scenario *scenario
	cases    []string
	held     []func() // let go on what is held
	begun    sync.WaitGroup
	ended    atomic.Int64 // how many of those have ended
	whole    *spool.Spool // that has room, while another one has not

	mu      sync.Mutex // guards what follows
	entries map[string]fuse.EntryOut
	handles map[string]handleInUse
	pages   map[int][]*act // the steps that must be made when so many pages have come
}

// handleInUse is an open file as the kernel has it.
type handleInUse struct {
	id, fh uint64
	flags  uint32
	answer uint32 // FOPEN_…
}

// runOptions are those of a mount.
var runOptions = map[string]func(*run){
	"loading": func(*run) {}, // nothing has loaded in the beginning
	"merge":   func(r *run) { r.configure(func(o *Options) { o.Merge = true }) },
	"spool":   func(r *run) { r.openSpool(minSpoolBytes) }, // programs' files are kept on disk
	"strict":  func(r *run) { r.configure(func(o *Options) { o.Strict = true }) },
	"flat":    (*run).flatten,                                             // the store is the whole mount
	"EBUSY":   func(r *run) { r.options().ConflictErrno = syscall.EBUSY }, // what a program is told whose write has lost
	"prompt":  func(r *run) { r.takeNotices() },                           // the kernel takes every notice in at once
	"patient": func(r *run) { r.s.patience = time.Minute },                // it waits for the notice that it must hear of
	"knowing": func(r *run) { r.log.SetKnowsTip(true) },                   // the log tells its tip at once
}

func checkOptions(names []string) error {
	for _, name := range names {
		if runOptions[name] == nil {
			return fmt.Errorf("%q is no option of a mount", name)
		}
	}
	return nil
}

func runScenario(t *testing.T, s *scenario, cases []string) {
	r := &run{
		rig: newRig(t, s.files...), scenario: s, cases: cases,
		entries: map[string]fuse.EntryOut{}, handles: map[string]handleInUse{}, pages: map[int][]*act{},
	}
	if !slices.Contains(s.mount, "spool") { // what comes back has a key of the mount that was killed
		r.log.RequireFresh()
	}
	r.keep()
	for _, name := range s.mount {
		runOptions[name](r)
	}
	if !slices.Contains(s.mount, "loading") {
		r.must(r.s.tree.Walk(t.Context()))
	}
	for _, st := range s.acts {
		hangs := time.AfterFunc(time.Minute, func() { panic(fmt.Sprintf("%s:%d: %s\nit does not end", s.file, st.line, st.text)) })
		r.do(st, st.when)
		hangs.Stop()
		time.Sleep(time.Microsecond) // no two steps are at one time
	}
	r.letGo()
	r.wantCounted()
}

// do makes a step, or arranges that it is made when the first event of the rest of its time has
// come.
func (r *run) do(st *act, when []string) {
	if !r.inCase(st) {
		return
	}
	if len(when) == 0 {
		if err := st.run(r, st); err != nil {
			r.Errorf("%s:%d: %s\n%v", r.scenario.file, st.line, st.text, err)
		}
		return
	}
	first, later := when[0], func() { r.do(st, when[1:]) }
	if first == anyPage {
		first = r.cases[len(r.cases)-1]
	}
	held, isHeld := strings.CutPrefix(first, "held ")
	page, isPage := strings.CutPrefix(first, "at page ")
	switch {
	case isPage:
		n, _ := strconv.Atoi(page)
		then := *st
		then.when = when[1:]
		r.pages[n] = append(r.pages[n], &then)
	case isHeld:
		r.hold(st, hookPoints[held], later)
	case first == "beside":
		r.begin(later)
		synctest.Wait() // until it has ended or waits
	default:
		r.log.Next(hookPoints[first], later)
	}
}

func (r *run) inCase(st *act) bool {
	return !slices.ContainsFunc(st.cases, func(names []string) bool {
		return !slices.ContainsFunc(names, func(name string) bool { return slices.Contains(r.cases, name) })
	})
}

// begin does something beside.
func (r *run) begin(do func()) (done chan struct{}) {
	done = make(chan struct{})
	r.begun.Go(func() {
		defer close(done)
		defer r.ended.Add(1)
		do()
	})
	return done
}

// hold begins something whose request is held at a point.
func (r *run) hold(st *act, p logfault.Point, do func()) {
	h := r.log.Hold(p)
	r.held = append(r.held, h.Release)
	done := r.begin(do)
	select {
	case <-h.Reached():
	case <-done:
		r.Errorf("%s:%d: %s\nit has ended, and was to be held", r.scenario.file, st.line, st.text)
	}
}

// letGoLocked lets all go on that is held, and waits for all that was begun.
func (r *run) letGo() {
	for _, release := range r.held {
		release()
	}
	r.held = nil
	r.begun.Wait()
	r.ended.Store(0)
}

// load brings in the heads, with what is to happen meanwhile.
func (r *run) load() error {
	n := 0
	var page func()
	page = func() {
		r.log.Each(logfault.AfterPage, nil) // what happens may read, too
		for _, st := range r.pages[n] {
			r.do(st, st.when)
		}
		delete(r.pages, n)
		n++
		r.log.Each(logfault.AfterPage, page)
	}
	r.log.Each(logfault.AfterPage, page)
	err := r.s.tree.Walk(r.Context())
	r.log.Each(logfault.AfterPage, nil)
	if len(r.pages) > 0 {
		err = errors.Join(err, fmt.Errorf("there were %d pages", n))
	}
	return err
}

// status is a status by name.
func statusNamed(name string) (status fuse.Status, ok bool) {
	switch name {
	case "", "OK":
		return fuse.OK, true
	case "conflict":
		return fuse.Status(DefaultConflictErrno), true
	}
	for errno := syscall.Errno(1); errno < 256; errno++ {
		if unix.ErrnoName(errno) == name {
			return fuse.Status(errno), true
		}
	}
	return 0, false
}

func checkStatus(name string) error {
	if _, ok := statusNamed(name); !ok && name != "fails" && name != "any" {
		return fmt.Errorf("%q is no status", name)
	}
	return nil
}

// ended compares how a request has ended with how it was to.
func (s *act) ended(status fuse.Status) error {
	want, _ := statusNamed(s.ends)
	switch {
	case s.ends == "any", s.ends == "fails" && !status.Ok():
		return nil
	case s.ends == "fails":
		return errors.New("it has succeeded")
	case status != want:
		return fmt.Errorf("it ended with %v, want %v", status, want)
	}
	return nil
}
