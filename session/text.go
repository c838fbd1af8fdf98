package session

import (
	"bytes"
	"context"
	"errors"
	"slices"

	"mneme/cas"
	"mneme/memory"
	"mneme/versionlog"
)

// Read returns the memory at a path, which the session knows from then on. If there is none, the
// session knows that: versionlog.ErrNotFound. If the session has changed the memory meanwhile, it
// knows its own version. While the outcome of an earlier change of the path is not known, it
// learns nothing new except what another session has made.
func (s *Session) Read(ctx context.Context, path string) (versionlog.Version, []byte, error) {
	path, err := s.enter(path, 0)
	if err != nil {
		return versionlog.Version{}, nil, err
	}
	isSettled, before := s.settleBefore(ctx, path), s.known.Of(path)
	v, data, err := s.store.Read(ctx, path)
	switch {
	case errors.Is(err, versionlog.ErrNotFound):
		if isSettled {
			s.known.ReadSince(path, before, nil)
		}
		return v, nil, err
	case err != nil:
		return v, nil, err
	}
	if err := s.opts.Budget.Take(0, int64(len(data))); err != nil {
		return versionlog.Version{}, nil, err
	}
	if isSettled || v.Session != s.opts.ID {
		s.known.ReadSince(path, before, memory.NewHead(&v))
	}
	return v, slices.Clone(data), nil
}

// Viewed notes that the whole text of v, which Read returned for the path, was shown to the agent:
// what it writes there next is not judged by what other sessions had changed up to v.
func (s *Session) Viewed(path string, v *versionlog.Version) {
	if path, err := memory.ParsePath(path); err == nil {
		s.known.Update(path, func(k Knowledge) Knowledge { return k.Viewed(memory.NewHead(v)) })
	}
}

// enter checks a path and takes a call, with the bytes that it brings, out of the budget.
func (s *Session) enter(path string, bytes int) (canonical string, err error) {
	if canonical, err = memory.ParsePath(path); err != nil {
		return "", err
	}
	return canonical, s.opts.Budget.Take(1, int64(bytes))
}

// enterClaimed is enter for a call that changes what is at the path, which the call has claimed
// then: what became of an earlier commit of it is known. The caller calls release once.
func (s *Session) enterClaimed(ctx context.Context, path string, bytes int) (canonical string, release func(), err error) {
	if canonical, err = s.enter(path, bytes); err != nil {
		return "", nil, err
	}
	release, err = s.Settle(ctx, func() []Claim { return []Claim{{Path: canonical}} }, nil)
	return canonical, release, err
}

// settleBefore finds out, before a path is read, what became of a commit of it whose reply
// was lost, so that the session does not take its own change for another's. If it reports
// false, that could not be found out: what is there is read all the same.
func (s *Session) settleBefore(ctx context.Context, path string) bool {
	claims := []Claim{{Path: path}}
	if len(s.inDoubt(claims)) == 0 && len(s.lostCallsAt(claims)) == 0 {
		return true
	}
	release, err := s.Settle(ctx, func() []Claim { return claims }, nil)
	if err != nil {
		return false
	}
	release()
	return true
}

// Write makes data the content of a path, in the place of the version that the session knows to
// be there, and returns the version that holds it: one that had the same bytes already, or a new
// one.
//
// If another session has changed the memory since, Options decide: the two are merged, or the
// bytes are kept, and the error is a *LostError. Other errors are those of memory.Store.Batch. If
// one is not final (errkind.Kind.Final), the memory may have been written; the next call about
// the path finds that out first.
func (s *Session) Write(ctx context.Context, path string, data []byte, opts *WriteOptions) (versionlog.Version, error) {
	path, release, err := s.enterClaimed(ctx, path, len(data))
	if err != nil {
		return versionlog.Version{}, err
	}
	defer release()
	if c, err := s.answered(ctx, opts.key()); c != nil || err != nil {
		return firstOf(c), err
	}
	k := s.known.Of(path)
	switch {
	case opts.expect() != nil:
		return s.put(ctx, path, data, *opts.Expect, opts)
	case k.IsKnown():
		if err := s.admitNew(ctx, path, k, data); err != nil {
			return versionlog.Version{}, err
		}
	case s.opts.Strict:
		head, err := s.headOf(ctx, path)
		if err != nil {
			return versionlog.Version{}, err
		}
		if e := s.Admit(path, head); e != nil {
			return versionlog.Version{}, s.refuse(ctx, e, data)
		}
	default:
		return s.put(ctx, path, data, versionlog.ExpectAny(), opts)
	}
	return s.save(ctx, &plain{s: s, path: path, base: k.Head(), data: slices.Clone(data), judge: k.ToJudge(), opts: opts})
}

// admitNew refuses data for a path at which the session knows no memory, since it has
// moved away unread what was there.
func (s *Session) admitNew(ctx context.Context, path string, k Knowledge, data []byte) error {
	if k.Head() != nil {
		return nil
	}
	e := s.AdmitNew(path, s.headIn(ctx))
	if e == nil {
		return nil
	}
	return s.refuse(ctx, e, data)
}

// headIn returns what returns the memory at a path; nil: none, or that cannot be found out,
// which then stands against nothing.
func (s *Session) headIn(ctx context.Context) func(path string) *memory.Head {
	return func(path string) *memory.Head {
		head, _ := s.headOf(ctx, path)
		return head
	}
}

// Append puts data at the end of the memory that is at a path at that time, or makes the memory,
// and returns the version that holds it. It never conflicts; sessions that append to one memory
// without a pause take turns. opts.Expect is not used.
func (s *Session) Append(ctx context.Context, path string, data []byte, opts *WriteOptions) (versionlog.Version, error) {
	path, release, err := s.enterClaimed(ctx, path, len(data))
	if err != nil {
		return versionlog.Version{}, err
	}
	defer release()
	if c, err := s.answered(ctx, opts.key()); c != nil || err != nil {
		return firstOf(c), err
	}
	head, before, err := s.newest(ctx, path)
	if err != nil {
		return versionlog.Version{}, err
	}
	return s.save(ctx, &plain{s: s, path: path, base: memory.NewHead(head), before: before, data: slices.Clone(data), appends: true, opts: opts})
}

// newest returns the memory at a path; nil: none.
func (s *Session) newest(ctx context.Context, path string) (*versionlog.Version, []byte, error) {
	v, data, err := s.store.Read(ctx, path)
	switch {
	case errors.Is(err, versionlog.ErrNotFound):
		return nil, nil, nil
	case err != nil:
		return nil, nil, err
	}
	return &v, data, nil
}

// Edit calls edit with the newest version, makes its result the next version, and returns that.
// edit is called again when another session was faster; its error ends Edit, and nothing is
// written. An edit that changes nothing makes no version. If there is no memory, and edit returns
// nil, the Version returned is zero.
//
// An edit is done on top of the version that edit is given, so that it takes back nothing by
// mistake. The session knows the new version only if it knew the version that this was made from:
// else another session's change is in it, which it has not read. If the session has moved away a
// version that it has not read, Edit makes nothing new: a *LostError. An edit that fails is not
// kept, as it can be done again; but a text that the store's policy holds back is kept, for a
// person to confirm: a *HeldError.
func (s *Session) Edit(ctx context.Context, path string, edit func(Seen) ([]byte, error), opts *WriteOptions) (versionlog.Version, error) {
	path, release, err := s.enterClaimed(ctx, path, 0)
	if err != nil {
		return versionlog.Version{}, err
	}
	defer release()
	if c, err := s.answered(ctx, opts.key()); c != nil || err != nil {
		return firstOf(c), err
	}
	seen := Seen{Known: s.known.Of(path)}
	for try := 0; ; try++ {
		seen.Try = try
		v, err := s.editOnce(ctx, path, seen, edit, opts)
		_, isLost := errors.AsType[*LostError](err)
		if !errors.Is(err, versionlog.ErrConflict) || isLost || opts.expect() != nil || try >= maxRebases {
			return v, err
		}
		s.backOff(ctx, try+1)
		if err := ctx.Err(); err != nil {
			return versionlog.Version{}, err
		}
	}
}

// Seen is what an edit is done on.
type Seen struct {
	Version *versionlog.Version // the newest; nil: there is no memory
	Content []byte              // what it holds; the edit may keep and change it
	Known   Knowledge           // what the session knew of the path when Edit began
	Try     int                 // how often another session was faster
}

func (s *Session) editOnce(ctx context.Context, path string, seen Seen, edit func(Seen) ([]byte, error), opts *WriteOptions) (versionlog.Version, error) {
	v, old, err := s.newest(ctx, path)
	if err != nil {
		return versionlog.Version{}, err
	}
	seen.Version, seen.Content = v, slices.Clone(old)
	data, err := edit(seen)
	if err != nil {
		return versionlog.Version{}, err
	}
	if err := s.opts.Budget.Take(0, int64(len(old)+len(data))); err != nil {
		return versionlog.Version{}, err
	}
	switch {
	case v == nil && data == nil:
		return versionlog.Version{}, nil
	case v != nil && bytes.Equal(old, data):
		return *v, nil
	}
	under := memory.NewHead(v)
	expect := expectVersion(under)
	if own := opts.expect(); own != nil {
		expect = *own
	} else if v == nil {
		if e := s.AdmitNew(path, s.headIn(ctx)); e != nil {
			s.Report(e, "")
			return versionlog.Version{}, e
		}
	}
	change := memory.Change{Action: versionlog.Put, Path: path, Content: data, Expect: expect}
	c, err := s.commit(ctx, []memory.Change{change}, opts, func(k Knowledge, made *memory.Head) Knowledge { return k.Merged(made, under) })
	switch {
	case err != nil:
		return versionlog.Version{}, s.keepIfHeld(ctx, err, path, data, func() (*memory.Head, error) { return under, nil }, nil)
	case len(c.Versions) == 0: // another session has just written the very same bytes: two edits must give two
		return versionlog.Version{}, &versionlog.ConflictError{Conflicts: []versionlog.Conflict{{Path: path, Expected: expect}}}
	}
	return c.Versions[0], nil
}

// put makes data the content of a path in one commit, under an expectation. Data that fails is
// not kept.
func (s *Session) put(ctx context.Context, path string, data []byte, expect versionlog.Expectation, opts *WriteOptions) (versionlog.Version, error) {
	return s.putChange(ctx, memory.Change{Action: versionlog.Put, Path: path, Content: data, Expect: expect}, opts)
}

func (s *Session) putChange(ctx context.Context, change memory.Change, opts *WriteOptions) (versionlog.Version, error) {
	for try := 0; ; try++ {
		c, err := s.commit(ctx, []memory.Change{change}, opts, Knowledge.Wrote)
		switch {
		case err != nil:
			return versionlog.Version{}, s.keepIfHeld(ctx, err, change.Path, change.Content, func() (*memory.Head, error) { return s.headOf(ctx, change.Path) }, opts)
		case len(c.Versions) > 0:
			return madeAt(c, change.Path), nil
		}
		head, err := s.headVersion(ctx, change.Path) // which has this content already
		switch {
		case err != nil:
			return versionlog.Version{}, err
		case head != nil && head.Digest == cas.Sum(change.Content) && (!opts.swaps() || change.Expect.Holds(head)):
			s.known.Update(change.Path, func(k Knowledge) Knowledge { return k.Wrote(memory.NewHead(head)) })
			return *head, nil
		case opts.swaps() || try >= maxAlike: // else another session has replaced it since
			return versionlog.Version{}, &versionlog.ConflictError{Conflicts: []versionlog.Conflict{{Path: change.Path, Expected: change.Expect, Head: head}}}
		}
	}
}

// firstOf returns the first version of a commit; nil, or one that made none, has the zero value.
func firstOf(c *versionlog.Commit) (v versionlog.Version) {
	if c != nil && len(c.Versions) > 0 {
		v = c.Versions[0]
	}
	return v
}

// madeAt returns the version that a commit has made at a path or, of an earlier commit with its key,
// the first one.
func madeAt(c *versionlog.Commit, path string) versionlog.Version {
	for _, v := range c.Versions {
		if v.Path == path && v.Live() {
			return v
		}
	}
	return c.Versions[0]
}

// plain is the Text of a call: bytes for a path.
type plain struct {
	s       *Session
	turn    Turn
	lost    LostReply
	path    string
	base    *memory.Head // nil: no memory
	before  []byte       // of an append: what base holds
	data    []byte
	appends bool
	judge   []Change
	opts    *WriteOptions
	key     bool // the caller's key has been used
	saved   versionlog.Version
}

// save makes a plain text a version. The caller has claimed its path.
func (s *Session) save(ctx context.Context, p *plain) (versionlog.Version, error) {
	if err := s.Save(ctx, p, &SaveOptions{Claimed: true}); err != nil {
		if s.IsInDoubt(&p.lost) {
			s.doubt(p)
		}
		return versionlog.Version{}, err
	}
	return p.saved, nil
}

// doubt remembers a text whose reply was lost, for the next call about its path. When there
// are too many, the oldest is given up.
func (s *Session) doubt(p *plain) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.doubtful = slices.DeleteFunc(s.doubtful, func(t Text) bool { return t.LostReply().draft == nil })
	if s.doubtful = append(s.doubtful, p); len(s.doubtful) > maxLost {
		s.doubtful[0].LostReply().draft = nil
		s.doubtful = slices.Delete(s.doubtful, 0, 1)
	}
}

func (p *plain) Turn() *Turn           { return &p.turn }
func (p *plain) LostReply() *LostReply { return &p.lost }
func (p *plain) Path() string          { return p.path }

// Draft takes any version with the bytes of base for base: the session has read them. Bytes that
// are saved are not saved again.
func (p *plain) Draft(string) (*Draft, error) {
	if p.saved.ID != "" {
		return nil, nil
	}
	d := &Draft{Path: p.path, Data: slices.Concat(p.before, p.data), Base: p.base, Judge: p.judge, Options: p.s.commitOptions(p.opts)}
	if p.appends {
		d.Append, d.Added = true, len(p.data)
	} else if p.base != nil {
		d.Expect = versionlog.ExpectDigest(p.base.Digest())
	}
	if key := p.opts.key(); key != "" && !p.key {
		d.Key, d.Used, p.key = key, true, true
	}
	return d, nil
}

func (p *plain) Met(*Draft, *versionlog.Version) {}

func (p *plain) Rebase(_ *Draft, theirs *memory.Head, content []byte) bool {
	p.base = theirs
	if p.appends {
		p.before = content
	} else {
		p.data = content
	}
	return true
}

func (p *plain) Committed(d *Draft, v *versionlog.Version, _ *versionlog.Commit) {
	if p.saved = *v; !v.Redacted() {
		p.s.Holds(d, memory.NewHead(v))
	}
}

func (p *plain) Lost(d *Draft) Loss {
	p.s.Loses(p.path, p.base)
	return Loss{Path: p.path, Base: p.base, Yours: d.Data}
}

func (p *plain) Kept(Loss) {}

func (p *plain) Beside(_ *Draft, commit func() error) error { return commit() }
