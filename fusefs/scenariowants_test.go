package fusefs

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hanwen/go-fuse/v2/fuse"

	"mneme/history"
)

// wants are what a scenario wants to be so.
var wants = map[string]verb{
	"/":         {2, 2, (*run).wantFile},         // path text: a program opens and reads it; "path gone", "path there"
	"text":      {2, 2, (*run).wantHandle},       // handle text: what is read through it
	"cached":    {1, 1, (*run).wantCached},       // file: the kernel keeps what it has read of it, when it is opened
	"uncached":  {1, 1, (*run).wantUncached},     // file: it does not
	"direct":    {1, 1, (*run).wantDirect},       // handle: the kernel neither keeps what is read and written through it, nor has any of it
	"absent":    {1, 1, (*run).wantAbsent},       // path: there is nothing, and the kernel may keep that
	"shown":     {0, 0, (*run).wantShown},        // whatever is looked up and listed is what the log has
	"size":      {2, 2, (*run).wantSize},         // file bytes: what stat says
	"names":     {1, many, (*run).wantNames},     // directory name name: what it lists
	"same":      {2, 2, (*run).wantSame},         // name of a lookup, path: the path is that inode
	"other":     {2, 2, (*run).wantOther},        // name of a lookup, path: it is another one
	"as":        {1, 3, (*run).wantAsLog},        // "as log"; "as log but scratch": the mount may show files of programs, too
	"hidden":    {1, 1, (*run).wantHidden},       // "hidden nothing": below a file, nothing is hidden
	"store":     {2, 2, (*run).wantStore},        // path text: the log has it there
	"dirs":      {0, many, (*run).wantDirs},      // path/ path/: all directories that the log has by themselves
	"recovered": {0, many, (*run).wantRecovered}, // path path=: what comes back of a mount that was killed, = as a conflict
	"log":       {0, many, (*run).wantLog},       // path path: all that the log has
	"texts":     {1, many, (*run).wantTexts},     // path text text: its versions, the oldest first
	"history":   {1, 1, (*run).wantHistory},      // text: some version holds it
	"op":        {2, 2, (*run).wantOp},           // path op: how its newest version came to be
	"kept":      {1, 1, (*run).wantKept},         // text: a conflict holds it; "kept nothing"
	"one":       {1, 1, (*run).wantOne},          // "one conflict": no more is kept
	"errors":    {1, 1, (*run).wantErrors},       // text: .mneme/errors has it
	"status":    {1, 1, (*run).wantStatus},       // text: .mneme/status has it
	"waiting":   {0, 0, (*run).wantWaiting},      // nothing that was begun beside has ended
	"reads":     {1, 1, (*run).wantReads},        // number of reads of heads since this was last asked
}

func differ(what, got, want string) error {
	if got != want {
		return fmt.Errorf("%s is %q, want %q", what, got, want)
	}
	return nil
}

func (r *run) wantFile(s *act) error {
	path, want := s.arg(0), s.args[1]
	if !want.quoted && (want.text == "gone" || want.text == "there") {
		status := fuse.OK
		if want.text == "gone" {
			status = fuse.ENOENT
		}
		if _, got := r.lookup(path); got != status {
			return fmt.Errorf("the lookup ended with %v, want %v", got, status)
		}
		return nil
	}
	got, status, err := r.text(path)
	if err != nil || !status.Ok() {
		return errors.Join(err, fmt.Errorf("the read ended with %v", status))
	}
	return differ("what is read", got, want.text)
}

func (r *run) wantHandle(s *act) error {
	got, status, err := r.text(s.arg(0))
	if err != nil || !status.Ok() {
		return errors.Join(err, fmt.Errorf("the read ended with %v", status))
	}
	return differ("what is read", got, s.arg(1))
}

// isCached reports whether an open lets the kernel keep what it has read.
func (r *run) isCached(s *act) (bool, error) {
	entry, status, err := r.entry(s.arg(0))
	if err != nil || !status.Ok() {
		return false, errors.Join(err, fmt.Errorf("the lookup ended with %v", status))
	}
	var out fuse.OpenOut
	if status := r.fs.Open(nil, &fuse.OpenIn{InHeader: header(entry.NodeId)}, &out); !status.Ok() {
		return false, fmt.Errorf("the open ended with %v", status)
	}
	r.fs.Release(nil, &fuse.ReleaseIn{Fh: out.Fh})
	return out.OpenFlags&fuse.FOPEN_KEEP_CACHE != 0, nil
}

func (r *run) wantCached(s *act) error {
	cached, err := r.isCached(s)
	if err == nil && !cached {
		err = errors.New("the kernel is to read it again")
	}
	return err
}

func (r *run) wantUncached(s *act) error {
	cached, err := r.isCached(s)
	if err == nil && cached {
		err = errors.New("the kernel keeps what it has")
	}
	return err
}

func (r *run) wantDirect(s *act) error {
	h, err := r.handleNamed(s.arg(0))
	if err == nil && h.answer&(fuse.FOPEN_DIRECT_IO|fuse.FOPEN_KEEP_CACHE) != fuse.FOPEN_DIRECT_IO {
		err = fmt.Errorf("the open was answered with %#x", h.answer)
	}
	return err
}

func (r *run) wantAbsent(s *act) error {
	out, status := r.lookup(s.arg(0))
	if status != fuse.ENOENT || out.EntryTimeout() < time.Hour {
		return fmt.Errorf("the lookup ended with %v, which the kernel keeps for %v", status, out.EntryTimeout())
	}
	return nil
}

func (r *run) wantShown(*act) error {
	r.awaitTasks()
	got, want := map[string]string{}, map[string]string{}
	if err := r.showBelow("", got); err != nil {
		return err
	}
	for v, err := range r.other.Heads(r.Context(), "/") {
		if err != nil {
			return err
		}
		data, err := r.other.Content(r.Context(), v)
		if err != nil {
			return err
		}
		want[v.Path] = string(data)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		return fmt.Errorf("the mount differs from the log (-log +mount):\n%s", diff)
	}
	return nil
}

// showBelow reads all files below a directory. But for the top, none is empty.
func (r *run) showBelow(dir string, files map[string]string) error {
	names, status := r.names(dir)
	if !status.Ok() || dir != "" && len(names) == 0 {
		return fmt.Errorf("%s/ lists %q (%v)", dir, names, status)
	}
	for _, name := range names {
		path := dir + "/" + name
		entry, status := r.lookup(path)
		if !status.Ok() {
			return fmt.Errorf("the lookup of %s ended with %v", path, status)
		}
		if entry.Mode&syscall.S_IFMT == syscall.S_IFDIR {
			if err := r.showBelow(path, files); err != nil {
				return err
			}
			continue
		}
		text, status, err := r.text(path)
		if err != nil || !status.Ok() {
			return errors.Join(err, fmt.Errorf("the read of %s ended with %v", path, status))
		}
		files[path] = text
	}
	return nil
}

func (r *run) wantSize(s *act) error {
	entry, status, err := r.entry(s.arg(0))
	if err != nil || !status.Ok() {
		return errors.Join(err, fmt.Errorf("the lookup ended with %v", status))
	}
	return differ("its size", fmt.Sprint(entry.Size), s.arg(1))
}

func (r *run) wantNames(s *act) error {
	got, status := r.names(s.arg(0))
	if want := s.rest(1); !status.Ok() || !slices.Equal(got, want) {
		return fmt.Errorf("it lists %q (%v), want %q", got, status, want)
	}
	return nil
}

func (r *run) isSame(s *act) (bool, error) {
	entry, _, err := r.entry(s.arg(0))
	now, status := r.lookup(s.arg(1))
	if !status.Ok() {
		err = errors.Join(err, fmt.Errorf("the lookup ended with %v", status))
	}
	return now.NodeId == entry.NodeId, err
}

func (r *run) wantSame(s *act) error {
	same, err := r.isSame(s)
	if err == nil && !same {
		err = errors.New("it is another inode")
	}
	return err
}

func (r *run) wantOther(s *act) error {
	same, err := r.isSame(s)
	if err == nil && same {
		err = errors.New("it is that inode")
	}
	return err
}

func (r *run) wantAsLog(s *act) error {
	r.follow()
	if wrong := r.differs(); wrong != "" {
		return errors.New(wrong)
	}
	if s.arg(2) != "scratch" {
		if wrong := r.differsInFiles(); wrong != "" {
			return errors.New(wrong)
		}
	}
	return nil
}

func (r *run) wantHidden(*act) error {
	if wrong := r.hiddenInFiles(); wrong != "" {
		return errors.New(wrong)
	}
	return nil
}

func (r *run) wantStore(s *act) error {
	_, data, err := r.other.Read(r.Context(), s.arg(0))
	if err != nil {
		return err
	}
	return differ("what the log has", string(data), s.arg(1))
}

func (r *run) wantLog(s *act) error {
	var got []string
	for v, err := range r.other.Heads(r.Context(), "/") {
		if err != nil {
			return err
		}
		got = append(got, v.Path)
	}
	if want := s.rest(0); !slices.Equal(got, want) {
		return fmt.Errorf("the log has %q, want %q", got, want)
	}
	return nil
}

func (r *run) wantDirs(s *act) error {
	var got []string
	for v, err := range r.other.Tree(r.Context(), "/") {
		if err != nil {
			return err
		}
		if v.IsDir() {
			got = append(got, v.Path)
		}
	}
	if want := s.rest(0); !slices.Equal(got, want) {
		return fmt.Errorf("the log has %q, want %q", got, want)
	}
	return nil
}

func (r *run) wantRecovered(s *act) error {
	if got, want := r.recover(), s.rest(0); !slices.Equal(got, want) {
		return fmt.Errorf("it is %q, want %q", got, want)
	}
	return nil
}

func (r *run) wantTexts(s *act) error {
	var got []string
	for v, err := range history.Versions(r.Context(), r.other, s.arg(0)) {
		if err != nil {
			return err
		}
		text := "removed"
		if v.Live() {
			data, err := r.other.Content(r.Context(), v)
			if err != nil {
				return err
			}
			text = string(data)
		}
		got = append(got, text)
	}
	slices.Reverse(got)
	if want := s.rest(1); !slices.Equal(got, want) {
		return fmt.Errorf("its versions are %q, want %q", got, want)
	}
	return nil
}

func (r *run) wantHistory(s *act) error {
	if !r.inHistory(s.arg(0)) {
		return errors.New("no version holds it")
	}
	return nil
}

func (r *run) wantOp(s *act) error {
	v, err := r.other.Head(r.Context(), s.arg(0))
	if err != nil {
		return err
	}
	return differ("how it came to be", string(v.Op), s.arg(1))
}

func (r *run) wantKept(s *act) error {
	r.awaitTasks()
	if !s.args[0].quoted && s.arg(0) == "nothing" {
		all, err := r.s.kept.ListAll()
		if err == nil && len(all) > 0 {
			err = fmt.Errorf("conflicts are kept: %+v", all)
		}
		return err
	}
	if !r.kept(s.arg(0)) {
		return errors.New("no conflict holds it")
	}
	return nil
}

func (r *run) wantOne(*act) error {
	if ids, err := r.s.kept.IDs(); err != nil || len(ids) != 1 {
		return fmt.Errorf("conflicts %v are kept (%w)", ids, err)
	}
	return nil
}

func (r *run) wantIn(path, want string) error {
	got, status, err := r.text(path)
	if err != nil || !status.Ok() {
		return errors.Join(err, fmt.Errorf("the read ended with %v", status))
	}
	if !strings.Contains(got, want) {
		return fmt.Errorf("%s has\n%s", path, got)
	}
	return nil
}

func (r *run) wantErrors(s *act) error { return r.wantIn("/.mneme/errors", s.arg(0)) }
func (r *run) wantStatus(s *act) error { return r.wantIn("/.mneme/status", s.arg(0)) }

func (r *run) wantReads(s *act) error {
	got := r.log.Reads()
	r.log.ResetReads()
	return differ("the number of reads", strconv.FormatInt(got, 10), s.arg(0))
}

func (r *run) wantWaiting(*act) error {
	synctest.Wait()
	if r.ended.Load() > 0 {
		return errors.New("it does not wait")
	}
	return nil
}
