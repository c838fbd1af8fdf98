package fusefs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"mneme/cas"
	"mneme/fusefs/tree"
	"mneme/history"
	"mneme/internal/quote"
	"mneme/memory"
	"mneme/private"
	"mneme/session/conflict"
	"mneme/spool"
	"mneme/versionlog"
)

// Left is a file that was not committed when its mount ended.
type Left struct {
	Store, Path string
	Session     string // of the mount that has ended
	Conflict    int    // which keeps it; 0: it is a memory now
}

// Recovered returns what this mount has found that others left, which were killed:
// it was brought back as memories, or is kept as conflicts.
func (m *Server) Recovered() []Left { return m.left(false) }

// Recover looks once more for files that others have left: the process that this one took the
// mount over from may have kept them locked for longer.
func (m *Server) Recover() {
	for _, s := range m.fs.stores {
		s.recover(m.fs.ctx)
	}
}

// Kept returns what this mount has left itself, once it has ended, with the conflicts
// that its session has not settled.
func (m *Server) Kept() []Left { return m.left(true) }

func (m *Server) left(own bool) (all []Left) {
	m.fs.mu.RLock()
	defer m.fs.mu.RUnlock()
	for _, s := range m.fs.stores {
		if !own {
			all = append(all, s.recovered...)
			continue
		}
		kept := append(slices.Clone(s.left), s.openConflictsLocked()...)
		for _, l := range s.taken {
			if s.session.Conflicts().IsOwn(l.Conflict) { // else the session has done it again
				kept = append(kept, l)
			}
		}
		all = append(all, s.unsettled(kept)...)
	}
	return all
}

// unsettled returns those whose conflict has not been settled.
func (s *store) unsettled(left []Left) []Left {
	ids, err := s.kept.IDs()
	if err != nil { // better one too many
		return left
	}
	return slices.DeleteFunc(left, func(l Left) bool { return l.Conflict != 0 && !slices.Contains(ids, l.Conflict) })
}

// openConflictsLocked are the conflicts of this session that are not settled, except those that
// Kept names otherwise.
func (s *store) openConflictsLocked() (all []Left) {
	for id, path := range s.session.Conflicts().Own() {
		same := func(l Left) bool { return l.Conflict == id }
		if !slices.ContainsFunc(s.left, same) && !slices.ContainsFunc(s.taken, same) {
			all = append(all, Left{Store: s.slug(), Path: path, Session: s.fs.opts.Session, Conflict: id})
		}
	}
	slices.SortFunc(all, func(a, b Left) int { return cmp.Compare(a.Conflict, b.Conflict) })
	return all
}

// recover settles the files that killed mounts of the store have left. Files that cannot be
// settled now stay for the next mount.
func (s *store) recover(ctx context.Context) {
	if s.spool == nil || s.readOnly() {
		return
	}
	dead, err := spool.Dead(s.kept.Dir())
	if err != nil {
		s.fs.log.Error("look for what was left", "store", s.slug(), "err", err)
	}
	var recovered []Left
	for _, d := range dead {
		recovered = append(recovered, s.settle(d, func(e *spool.Entry) (*Left, error) { return s.revive(ctx, e) })...)
	}
	s.fs.mu.Lock()
	defer s.fs.mu.Unlock()
	s.recovered = append(s.recovered, recovered...)
}

// endSpools settles what is not committed when the mount ends.
func (fs *fileSystem) endSpools() {
	for _, s := range fs.stores {
		if s.spool == nil {
			continue
		}
		s.dropSettled()
		own := s.spool.End()
		if own == nil {
			continue
		}
		left := s.settle(own, func(e *spool.Entry) (*Left, error) {
			return s.keepLeft(fs.ctx, e, nil, "its name is that of a program's scratch file, and its mount has ended")
		})
		fs.mu.Lock()
		s.left = append(s.left, left...)
		fs.mu.Unlock()
	}
}

// settle settles the files of a spool that was left, one by one: a process that is killed
// meanwhile leaves the rest to the next one.
func (s *store) settle(l *spool.Left, each func(*spool.Entry) (*Left, error)) (all []Left) {
	rests, err := l.Rests()
	open := err != nil
	for _, r := range rests {
		if r.Entry == nil {
			s.fs.log.Warn("a file of the spool is cut off: its save was never acknowledged, or the disk has damaged it", "store", s.slug())
		} else {
			left, settleErr := each(r.Entry)
			if settleErr != nil {
				err, open = errors.Join(err, fmt.Errorf("%s: %w", r.Path, settleErr)), true
				s.errors.Add(r.Path, fmt.Sprintf("%s:%s is not in the history, and could not be kept; the next mount tries again: %v", s.slug(), r.Path, settleErr))
				continue
			}
			if left != nil {
				all = append(all, *left)
			}
		}
		if removeErr := r.Remove(); removeErr != nil {
			err, open = errors.Join(err, removeErr), true
		}
	}
	if open {
		err = errors.Join(err, l.Close())
	} else {
		err = errors.Join(err, l.Remove())
	}
	if err != nil {
		s.fs.log.Error("settle what was left", "store", s.slug(), "err", err)
	}
	return all
}

// revive makes an entry of a mount that was killed the memory that it would have
// become, or else a conflict. Nil: there is nothing to tell.
func (s *store) revive(ctx context.Context, e *spool.Entry) (*Left, error) {
	_, name := tree.Split(e.Path)
	if editorNames.MatchString(name) {
		return s.keepLeft(ctx, e, nil, "its name is that of a program's scratch file, and its mount was killed")
	}
	tip, err := s.memory.Tip(ctx)
	if err != nil {
		return nil, err
	}
	if e.Mode != 0 {
		if err := s.private.Note(private.Change{Key: e.Path, Mode: e.Mode}); err != nil {
			return nil, err
		}
	}
	put := memory.Change{
		Action: versionlog.Put, Path: e.Path, Spelling: memory.Spelled(e.Path, e.Spelling), Content: e.Data, Expect: versionlog.ExpectAbsent(),
	}
	c, err := s.memory.Batch(ctx, []memory.Change{put}, &memory.CommitOptions{
		Key: e.Key, Message: fmt.Sprintf("saved by session %q, whose mount was killed", e.Session),
	})
	if refusesContent(err) {
		_ = s.private.Note(s.forgetPath(e.Path)...) // else another memory there is private
	}
	switch theirs, taken := versionlog.ConflictAt(err, e.Path); {
	case taken:
		return s.keepLeft(ctx, e, memory.NewHead(theirs), "its mount was killed, and another memory is there now")
	case err != nil && refusesContent(err):
		return s.keepLeft(ctx, e, nil, "its mount was killed, and it cannot be a memory: "+strings.TrimPrefix(err.Error(), e.Path+": "))
	case err != nil:
		return nil, err
	case len(c.Versions) == 0 || c.Seq <= tip.Seq: // it was there already
		return nil, nil
	}
	s.errors.Add(e.Path, fmt.Sprintf("%s:%s was saved by session %s, whose mount was killed; it is a memory now", s.slug(), e.Path, quote.Name(e.Session)))
	s.fs.log.Info("brought back", "store", s.slug(), "path", e.Path, "session", e.Session)
	return &Left{Store: s.slug(), Path: e.Path, Session: e.Session}, nil
}

// refusesContent reports whether a commit would fail as often as it is tried.
func refusesContent(err error) bool {
	return memory.IsFinal(err) && !errors.Is(err, memory.ErrUntried) ||
		errors.Is(err, memory.ErrTooBig) || errors.Is(err, memory.ErrNotText) || errors.Is(err, memory.ErrBadPath) ||
		errors.Is(err, memory.ErrPathEncoding) || errors.Is(err, memory.ErrPathTooLong)
}

// keepLeft keeps an entry as a conflict, unless it is empty or its bytes are in the
// history, or kept already.
func (s *store) keepLeft(ctx context.Context, e *spool.Entry, theirs *memory.Head, why string) (*Left, error) {
	id, err := s.kept.Find(e.Path, e.Data)
	if err != nil {
		return nil, err
	}
	return s.keepLeftAs(ctx, id, e, theirs, why)
}

// keepLeftAs is keepLeft of an entry that is kept as that conflict; 0: not yet.
func (s *store) keepLeftAs(ctx context.Context, id int, e *spool.Entry, theirs *memory.Head, why string) (*Left, error) {
	if len(e.Data) == 0 || s.hasText(ctx, e) {
		return nil, nil
	}
	var err error
	if id == 0 {
		id, err = s.session.Conflicts().Keep(ctx, conflict.About{
			Store: s.slug(), Path: e.Path, Session: e.Session, Time: time.Now().UTC().Truncate(time.Microsecond),
			Why:    fmt.Sprintf("%s is not in the history: %s", quote.Name(s.slug()+":"+e.Path), why),
			Theirs: conflict.SideOf(theirs.Version()),
		}, conflict.Texts{Theirs: s.text(ctx, theirs), Yours: e.Data})
	}
	if err != nil {
		return nil, err
	}
	if about, err := s.kept.About(id); err != nil || about.IsShownTo(s.fs.opts.Session) {
		s.errors.AddConflict(e.Path, fmt.Sprintf("%s:%s of session %s is not in the history: %s; its text is kept in .mneme/conflicts/%d/yours", s.slug(), e.Path, quote.Name(e.Session), why, id))
	}
	s.fs.log.Info("kept as a conflict", "store", s.slug(), "path", e.Path, "session", e.Session, "conflict", id)
	return &Left{Store: s.slug(), Path: e.Path, Session: e.Session, Conflict: id}, nil
}

// text is the content of a version for a conflict, nil when there is none.
func (s *store) text(ctx context.Context, v *memory.Head) []byte {
	if v == nil || !v.Live() {
		return nil
	}
	data, err := s.memory.ContentOf(ctx, v)
	if err != nil {
		s.fs.log.Error("content for a conflict", "store", s.slug(), "path", v.Path(), "err", err)
		return nil
	}
	return data
}

// hasText reports whether the history has the bytes of an entry, where editors put what they
// copy: as a version of the file that a backup is of. If the log cannot be asked, the history is
// not known to have them.
func (s *store) hasText(ctx context.Context, e *spool.Entry) bool {
	const most = 1000 // versions of one memory
	digest := cas.Sum(e.Data)
	for _, path := range originals(e.Path) {
		n := 0
		for v, err := range history.Versions(ctx, s.memory, path) {
			if n++; err != nil || n > most {
				break
			}
			if v.Digest == digest && v.Live() {
				return true
			}
		}
	}
	return false
}

// numbered ends the names of emacs' and cp's numbered backups.
var numbered = regexp.MustCompile(`\.~[0-9]+~$`)

// originals returns a path and those of the files that it may be a copy of.
func originals(path string) []string {
	dir, name := tree.Split(path)
	paths := []string{path}
	if of := strings.TrimSuffix(numbered.ReplaceAllString(name, ""), "~"); of != name && of != "" {
		paths = append(paths, dir+"/"+of)
	}
	if of := strings.TrimSuffix(strings.TrimPrefix(name, "#"), "#"); of != name && of != "" {
		paths = append(paths, dir+"/"+of)
	}
	return paths
}
