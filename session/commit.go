package session

import (
	"cmp"
	"context"

	"mneme/cas"
	"mneme/history"
	"mneme/memory"
	"mneme/versionlog"
)

// Proposal is one commit to be made.
type Proposal struct {
	Key string // idempotency key; "" makes a fresh one
	// Run makes the commit under opts.Key. It may be called once only.
	Run func(ctx context.Context, opts *memory.CommitOptions) (*versionlog.Commit, error)
}

// Commit makes one commit of this session, of names as a rule; Save is for texts.
//
// brought, if it is not nil, is called once the commit is in the log, before a follower
// meets it or anything later. In it the face takes its lock, brings the commit into what
// it shows, and calls Freed before it lets go, so that names and knowledge change
// together. It is called, too, with a commit that has no versions, since there was
// nothing to do.
//
// A commit that ends with an error that is not final (errkind.Kind.Final) may be in the
// log all the same. In a session that is followed it is then remembered by its key: when
// it turns up, Meet says that it is the session's own.
func (s *Session) Commit(ctx context.Context, p Proposal, brought func(*versionlog.Commit)) error {
	fresh := p.Key == ""
	if fresh {
		p.Key = versionlog.NewKey()
	}
	one := s.begin(p.Key)
	c, err := p.Run(ctx, &memory.CommitOptions{Key: p.Key, Fresh: fresh})
	if err == nil && brought != nil {
		brought(c)
	}
	s.end(one, c, err)
	return err
}

// Freed notes the paths that a commit of this session has removed or moved away: the session
// knows that there is nothing, whatever was there, and does not know what another session makes
// there now. A memory that has moved is known at its new path. The face calls it with its lock
// held.
func (s *Session) Freed(c *versionlog.Commit) {
	for i := range c.Versions {
		switch v := &c.Versions[i]; {
		case v.IsDir() || v.Redacted():
		case v.Op == versionlog.OpRenamed:
			s.known.Renamed(v)
		case v.Op == versionlog.OpDeleted:
			s.known.Freed(v.Path, v.Seq)
		}
	}
}

// madeBy notes what the session knows by a commit that it has made.
func (s *Session) madeBy(c *versionlog.Commit, knows knowing) {
	s.Freed(c)
	for i := range c.Versions {
		v := &c.Versions[i]
		if v.IsDir() || v.Redacted() || v.Op != versionlog.OpCreated && v.Op != versionlog.OpModified {
			continue
		}
		s.Wrote(v.Path)
		s.known.Update(v.Path, func(k Knowledge) Knowledge {
			if head := k.Head(); head != nil && head.Seq() > v.Seq { // of a key that was used before
				return k
			}
			return knows(k, memory.NewHead(v))
		})
	}
}

// propose commits a draft, or makes sure of its bytes where it changes nothing.
func (s *Session) propose(ctx context.Context, t Text, d *Draft) error {
	if d.Unchanged {
		if err := s.store.Keep(ctx, d.Data); err != nil {
			return err
		}
		t.Committed(d, d.Base.Version(), nil)
		return nil
	}
	one := s.beginDraft(t, d)
	if one == nil {
		return nil // the follower has met it since
	}
	began := s.now()
	var warned warnings
	c, v, err := s.commitDraft(ctx, d, &warned)
	if err == nil {
		t.Committed(d, v, c)
		if c != nil {
			s.hadTurn(d, began)
		}
		s.forgetSecrets(d.Path, d.Data)
		s.note(warned)
	}
	s.end(one, c, err)
	return err
}

// commitDraft makes a draft the next version of its path, and returns that, which may have
// been erased before the log had its reply. The commit is nil where another session had written
// the very same bytes.
func (s *Session) commitDraft(ctx context.Context, d *Draft, warned *warnings) (*versionlog.Commit, *versionlog.Version, error) {
	put := memory.Change{
		Action: versionlog.Put, Path: d.Path, Spelling: d.Spelling, Content: d.Data, Digest: d.Digest, Expect: d.expect(),
	}
	opts := d.Options
	opts.Key, opts.Fresh, opts.Message = d.Key, !d.resumed && !d.Used, cmp.Or(d.message, opts.Message)
	opts.Warn = warned.and(opts.Warn)
	c, err := s.store.Batch(ctx, append([]memory.Change{put}, d.Also...), &opts)
	if err != nil {
		return nil, nil, err
	}
	for i := range c.Versions {
		if v := &c.Versions[i]; v.Path == d.Path && v.Live() {
			return c, v, nil
		}
	}
	for i := range c.Versions { // a log that has asked what became of it
		if v := &c.Versions[i]; v.Redacted() && (v.Op == versionlog.OpCreated || v.Op == versionlog.OpModified) {
			return c, v, nil
		}
	}
	v, err := s.satisfied(ctx, d, c)
	if len(c.Versions) == 0 {
		c = nil
	}
	return c, v, err
}

// satisfied returns the version that holds a draft for which there was nothing to do,
// because another session wrote the very same bytes.
//
// For an append that is a conflict: two sessions that add the same line want two. It is one, too,
// where other bytes are there now, unless the commit has done something else: then the draft has
// been the newest version for a moment.
func (s *Session) satisfied(ctx context.Context, d *Draft, c *versionlog.Commit) (*versionlog.Version, error) {
	head, err := s.headVersion(ctx, d.Path)
	if err != nil {
		return nil, err
	}
	same := head != nil && head.Digest == cas.Sum(d.Data)
	switch {
	case !same && len(c.Versions) > 0:
		d.Newer = head
		return s.sameBytes(ctx, d, c.Seq), nil
	case !same, d.Append && d.Added > 0:
		return nil, conflictWith(head, d)
	}
	return head, nil
}

// sameBytes returns the version that had the bytes of a draft as of a commit or, where it
// is not found, what the draft was to replace.
func (s *Session) sameBytes(ctx context.Context, d *Draft, seq uint64) *versionlog.Version {
	for v, err := range history.Versions(ctx, s.store, d.Path) {
		if err != nil {
			break
		}
		if v.Seq <= seq {
			if v.Digest == cas.Sum(d.Data) {
				return &v
			}
			break
		}
	}
	return d.Base.Version()
}

func conflictWith(head *versionlog.Version, d *Draft) error {
	return &versionlog.ConflictError{Conflicts: []versionlog.Conflict{{Path: d.Path, Expected: d.expect(), Head: head}}}
}
