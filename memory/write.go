package memory

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"mneme/cas"
	"mneme/internal/quote"
	"mneme/versionlog"
)

// Change is one part of a Batch. The path of a directory ends in a slash.
type Change struct {
	Action   versionlog.Action
	Path     string
	To       string                 // Rename
	Spelling string                 // a form of the path that comes to be, see versionlog.Change
	Content  []byte                 // Put; Rename: nil keeps what the memory has
	Digest   cas.Digest             // of Content, where the caller has it; zero: it is computed
	Source   *versionlog.Version    // Put: whose content it is, in place of Content; the caller has read it, see CheckSources
	Revive   string                 // Put, MakeDir: id of the deleted memory or directory to revive, or ""
	Expect   versionlog.Expectation // of the head at Path
}

// puts reports whether the change gives a memory a content.
func (c *Change) puts() bool {
	return c.Action == versionlog.Put || c.Action == versionlog.Rename && c.Content != nil
}

// CommitOptions go with a commit; the zero value is the default.
type CommitOptions struct {
	Key     string            // idempotency key, see versionlog.Proposal; "" makes a fresh one
	Fresh   bool              // Key was just made and never used, see versionlog.Proposal
	Message string            // for people
	Meta    map[string]string // for programs, see versionlog.Commit; at most 16 pairs

	// Confirmed says that the caller confirms a change that the store's policy would otherwise
	// refuse: by its guard, or by its rule for secrets.
	Confirmed bool
	// Restores says that the contents are those of earlier versions, which the store's guard
	// lets pass: nothing is destroyed that was not there.
	Restores bool
	// Warn is called, once the commit is in the log, with each content that brings a credential
	// into a store whose rule asks for warnings. Nil: no warnings.
	Warn func(SecretsFound)

	// Actor and Session are who makes the commit, where that is not the author for whom
	// the store was opened: a server writes in the name of whomever it has authenticated.
	// The zero Actor is that author, in his session.
	Actor   versionlog.Actor
	Session string
}

// Batch makes all changes in one commit, or none. When it returns nil the
// changes are durable. The commit has no versions when every change was the
// case already.
//
// Errors: *versionlog.ConflictError, *versionlog.OverlapError, *SizeError,
// *TextError, ErrReadOnly, versionlog.ErrArchived, versionlog.ErrTooLarge, *versionlog.QuotaError,
// *versionlog.GuardError, *SecretsError, those of ParsePath, and those of the media.
func (s *Store) Batch(ctx context.Context, changes []Change, opts *CommitOptions) (*versionlog.Commit, error) {
	if opts == nil {
		opts = &CommitOptions{}
	}
	if s.author == nil {
		return nil, fmt.Errorf("store %s: %w", s.info.Slug, ErrReadOnly)
	}
	p := &versionlog.Proposal{
		Key: opts.Key, Fresh: opts.Fresh, Actor: s.author.Actor, Session: s.author.Session,
		Message: opts.Message, Meta: opts.Meta, Epoch: s.info.Epoch, Changes: make([]versionlog.Change, len(changes)),
		Quota: s.author.Quota, Used: s.added.usage(uptime()),
		Confirmed: opts.Confirmed || opts.Restores,
	}
	if opts.Actor != (versionlog.Actor{}) {
		p.Actor, p.Session = opts.Actor, opts.Session
	}
	if p.Key == "" {
		p.Key, p.Fresh = versionlog.NewKey(), true
	}
	found, err := s.complete(ctx, p, changes, opts.Confirmed)
	if errors.Is(err, ErrSecrets) && !p.Fresh {
		if c, lookErr := s.Earlier(ctx, p.Key); c != nil || lookErr != nil {
			return c, lookErr
		}
	}
	if err != nil {
		if !p.Fresh { // an earlier try may be in the history
			return nil, err
		}
		return nil, versionlog.Untried(err)
	}
	before, done := s.deletions.begin(proposer{s.info.ID, p.Actor, p.Session}, p.Changes)
	var deleted []versionlog.Version
	defer func() { done(deleted) }()
	p.Deleted = before
	commit, err := s.log.Commit(ctx, s.info.ID, p)
	if errors.Is(err, cas.ErrNotFound) { // a redaction has erased what was stored already
		if err = s.storeAll(ctx, p.Changes, changes); err == nil {
			commit, err = s.log.Commit(ctx, s.info.ID, p)
		}
	}
	if err != nil {
		s.refused(err)
		return nil, fmt.Errorf("store %s: %w", s.info.Slug, err)
	}
	deleted = commit.Versions
	s.added.add(commit.Versions, uptime())
	s.saw(commit)
	if opts.Warn != nil && len(commit.Versions) > 0 {
		for _, f := range found {
			opts.Warn(f)
		}
	}
	return commit, nil
}

// Earlier returns the commit that is in the log under an idempotency key; nil: none. It
// needs a store that was opened for writing.
func (s *Store) Earlier(ctx context.Context, key string) (*versionlog.Commit, error) {
	c, err := s.log.Commit(ctx, s.info.ID, &versionlog.Proposal{
		Key: key, Actor: s.author.Actor, Session: s.author.Session, Epoch: s.info.Epoch,
		Changes: []versionlog.Change{{Action: versionlog.Remove, Path: "/never", Expect: versionlog.ExpectVersion("never")}},
	})
	switch {
	case err == nil:
		return c, nil
	case IsFinal(err):
		return nil, nil
	}
	return nil, err
}

// complete makes a proposal of changes. Their contents are stored when it returns, as far
// as the log does not keep them itself. It returns the credentials about which the author
// must be warned.
func (s *Store) complete(ctx context.Context, p *versionlog.Proposal, changes []Change, confirmed bool) ([]SecretsFound, error) {
	for i, c := range changes {
		var err error
		if p.Changes[i], err = s.prepare(c); err != nil {
			return nil, &ChangeError{i, err}
		}
	}
	if err := p.CheckTexts(); err != nil {
		return nil, err
	}
	if err := s.checkNew(ctx, p.Changes); err != nil {
		return nil, err
	}
	if err := s.admit(ctx, p); err != nil {
		return nil, err
	}
	found, err := s.lookForSecrets(ctx, p.Message, p.Changes, func(i int) ([]byte, *versionlog.Version) { return changes[i].Content, changes[i].Source }, confirmed)
	if err != nil {
		return nil, err
	}
	return found, s.storeAll(ctx, p.Changes, changes)
}

// storeAll stores the contents of changes.
func (s *Store) storeAll(ctx context.Context, to []versionlog.Change, changes []Change) error {
	for i, c := range changes {
		if !c.puts() {
			continue
		}
		if err := s.store(ctx, &to[i], c); err != nil {
			return err
		}
	}
	return nil
}

// checkNew applies CheckNew to the paths that changes bring memories to. A memory
// that has such a path from before the rule can be changed, moved and brought back.
func (s *Store) checkNew(ctx context.Context, changes []versionlog.Change) error {
	for i, c := range changes {
		if err := s.checkNewOf(ctx, &c); err != nil {
			return &ChangeError{i, err}
		}
	}
	return nil
}

func (s *Store) checkNewOf(ctx context.Context, c *versionlog.Change) error {
	switch {
	case c.Action == versionlog.Rename && CheckNew(c.Path) == nil:
		return CheckNew(c.To)
	case c.Action == versionlog.MakeDir && c.MemoryID == "":
		return CheckNew(c.Path)
	case c.Action == versionlog.Put && c.MemoryID == "":
		bad := CheckNew(c.Path)
		if bad == nil {
			return nil
		}
		_, err := s.log.Head(ctx, s.info.ID, c.Path)
		if errors.Is(err, versionlog.ErrNotFound) {
			return bad
		}
		if err != nil {
			return s.Wrap(c.Path, err)
		}
	}
	return nil
}

// store makes the data of put the content of c: durable when it returns, or, where the log
// keeps contents of that size, together with the commit.
func (s *Store) store(ctx context.Context, c *versionlog.Change, put Change) error {
	if put.Source != nil {
		c.Digest = put.Source.Digest
		return nil
	}
	data := put.Content
	if most := s.can.MaxContent; most > 0 && len(data) <= most {
		if data == nil {
			data = []byte{}
		}
		if c.Digest, c.Content = put.Digest, data; c.Digest.IsZero() {
			c.Digest = cas.Sum(data)
		}
		return nil
	}
	d, err := s.blobs.Put(ctx, data)
	if err != nil {
		return fmt.Errorf("%s:%s: store content: %w", s.info.Slug, c.Path, err)
	}
	c.Digest = d
	return nil
}

// Keep makes sure that data, the content of some version, is in the store: bytes that are
// missing or damaged there are written again, durable when it returns nil, and others are
// left alone. It makes no commit.
func (s *Store) Keep(ctx context.Context, data []byte) error {
	if s.author == nil {
		return fmt.Errorf("store %s: %w", s.info.Slug, ErrReadOnly)
	}
	if _, err := s.blobs.Put(ctx, data); err != nil {
		return fmt.Errorf("store %s: keep content: %w", s.info.Slug, err)
	}
	return nil
}

// prepare checks a change by the rules of paths and content.
func (s *Store) prepare(c Change) (versionlog.Change, error) {
	parse := parseAny
	if c.puts() {
		parse = ParsePath
	}
	path, err := parse(c.Path)
	if err != nil {
		return versionlog.Change{}, err
	}
	out := versionlog.Change{Action: c.Action, Path: path, Spelling: c.Spelling, Expect: c.Expect, MemoryID: c.Revive, Size: int64(len(c.Content))}
	if c.Source != nil {
		out.Size = c.Source.Size
	}
	switch c.Action {
	case versionlog.Put:
		err = s.Check(path, c.Content)
	case versionlog.Rename:
		path, err = parse(c.To)
		out.To = path
		if err == nil && c.puts() {
			err = s.Check(path, c.Content)
		}
	}
	if err == nil && c.Spelling != "" && Spelled(path, c.Spelling) != c.Spelling {
		err = fmt.Errorf("%w: %s is not a form of %s", ErrBadPath, quote.Name(c.Spelling), quote.Name(path))
	}
	return out, err
}

// Write makes data the content of path and returns the version that holds it:
// a new one, or the head when that had this content already.
func (s *Store) Write(ctx context.Context, path string, data []byte, expect versionlog.Expectation) (versionlog.Version, error) {
	return s.put(ctx, Change{Action: versionlog.Put, Path: path, Content: data, Expect: expect}, nil)
}

func (s *Store) put(ctx context.Context, c Change, opts *CommitOptions) (versionlog.Version, error) {
	commit, err := s.Batch(ctx, []Change{c}, opts)
	if err != nil {
		return versionlog.Version{}, err
	}
	if len(commit.Versions) == 0 {
		return s.Head(ctx, c.Path)
	}
	return commit.Versions[0], nil
}

// Remove deletes the memory at path. versionlog.ErrNotFound when there is none.
func (s *Store) Remove(ctx context.Context, path string, expect versionlog.Expectation) (versionlog.Version, error) {
	commit, err := s.Batch(ctx, []Change{{Action: versionlog.Remove, Path: path, Expect: expect}}, nil)
	if err != nil {
		return versionlog.Version{}, AbsentAsNotFound(err)
	}
	return commit.Versions[0], nil
}

// MakeDir makes a directory that stays while nothing is in it, and returns its version.
// The expectation is of the directory: ExpectAbsent fails where there is one, also one
// that only memories imply; where it may be there and is implied, the zero Version is
// returned.
func (s *Store) MakeDir(ctx context.Context, path string, expect versionlog.Expectation, opts *CommitOptions) (versionlog.Version, error) {
	c, err := s.Batch(ctx, []Change{{Action: versionlog.MakeDir, Path: path + "/", Expect: expect}}, opts)
	if err != nil || len(c.Versions) > 0 {
		return firstOf(c), err
	}
	return s.Dir(ctx, path)
}

func firstOf(c *versionlog.Commit) (v versionlog.Version) {
	if c != nil && len(c.Versions) > 0 {
		v = c.Versions[0]
	}
	return v
}

// RemoveDir removes a directory that MakeDir made, in which nothing may be:
// *versionlog.OverlapError. versionlog.ErrNotFound when there is none, or only memories
// imply it.
func (s *Store) RemoveDir(ctx context.Context, path string, opts *CommitOptions) (versionlog.Version, error) {
	c, err := s.Batch(ctx, []Change{{Action: versionlog.Remove, Path: path + "/", Expect: versionlog.ExpectExists()}}, opts)
	return firstOf(c), AbsentAsNotFound(err)
}

// RemoveTree deletes every memory and directory at and below prefix in one commit and
// returns it. versionlog.ErrNotFound when there is none. admit, if it is not nil, is asked of each
// memory; its error ends RemoveTree.
func (s *Store) RemoveTree(ctx context.Context, prefix string, admit func(*versionlog.Version) error, opts *CommitOptions) (*versionlog.Commit, error) {
	var changes []Change
	for v, err := range s.Tree(ctx, prefix) {
		if err != nil {
			return nil, s.Wrap(prefix, err)
		}
		if admit != nil && !v.IsDir() {
			if err := admit(&v); err != nil {
				return nil, err
			}
		}
		changes = append(changes, Change{Action: versionlog.Remove, Path: v.Path, Expect: versionlog.ExpectVersion(v.ID)})
	}
	if changes == nil {
		return nil, s.Wrap(prefix, versionlog.ErrNotFound)
	}
	return s.Batch(ctx, changes, opts)
}

// Rename moves the memory at from, or the directory with all that is below it, to the path
// to in one commit. There must be nothing at to, or a directory in which nothing is.
// versionlog.ErrNotFound when there is nothing at from. As to is spelled, so will be that
// part of all paths.
func (s *Store) Rename(ctx context.Context, from, to string, opts *CommitOptions) (*versionlog.Commit, error) {
	spelling := to
	to, err := ParsePath(to)
	if err != nil {
		return nil, err
	}
	spelling = Spelled(to, spelling)
	var changes []Change
	for v, err := range s.Tree(ctx, from) {
		if err != nil {
			return nil, s.Wrap(from, err)
		}
		changes = append(changes, Change{
			Action: versionlog.Rename, Path: v.Path, To: to + strings.TrimPrefix(v.Path, from),
			Spelling: spelling + below(Spelled(v.Path, v.Spelling), strings.Count(from, "/")),
			Expect:   versionlog.ExpectVersion(v.ID),
		})
	}
	if changes == nil {
		return nil, s.Wrap(from, versionlog.ErrNotFound)
	}
	if first := &changes[0]; first.Path == from+"/" {
		target, err := s.Dir(ctx, to)
		if err != nil {
			return nil, s.Wrap(to, err)
		}
		if target.ID != "" { // which takes its place
			first.Action, first.To, first.Spelling = versionlog.Remove, "", ""
		}
	}
	return s.Batch(ctx, changes, opts)
}

// below returns the part of a path after its first names, with the slash before it.
func below(path string, names int) string {
	for i, r := range path {
		if r == '/' {
			if names--; names < 0 {
				return path[i:]
			}
		}
	}
	return ""
}

// AbsentAsNotFound turns the conflict of a change to a memory that is not
// there into the error a caller without expectations looks for.
func AbsentAsNotFound(err error) error {
	var conflict *versionlog.ConflictError
	if errors.As(err, &conflict) && conflict.Conflicts[0].Head == nil {
		return fmt.Errorf("%s: %w", conflict.Conflicts[0].Path, versionlog.ErrNotFound)
	}
	return err
}
