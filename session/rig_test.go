package session

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"mneme/cas"
	"mneme/cas/memcas"
	"mneme/internal/testing/logfault"
	"mneme/memory"
	"mneme/session/conflict"
	"mneme/versionlog"
	"mneme/versionlog/memlog"
)

// rig is a session whose log interferes, with a face of its own, and another session of
// the same store.
type rig struct {
	*testing.T
	log   *logfault.Log
	lib   *memory.Library
	mine  *memory.Store
	other *memory.Store
	s     *Session
	slept int // how often the session slept

	mu      sync.Mutex // the face's lock
	heads   map[string]*memory.Head
	applied uint64
	stages  []*staged
}

// newRig makes a store whose files hold their own path.
func newRig(t *testing.T, opts *Options, files ...string) *rig {
	t.Helper()
	r := &rig{T: t, log: logfault.New(memlog.New(nil), &logfault.Options{Session: "mine"}), heads: map[string]*memory.Head{}}
	blobs := memcas.New()
	r.lib = memory.NewLibrary(r.log, func(string) (cas.Store, error) { return blobs, nil })
	info, err := r.lib.CreateStore(t.Context(), "notes", nil)
	r.must(err)
	r.other = r.openAs(info.ID, "other")
	for _, path := range files {
		r.theirs(path, path)
	}
	r.mine = r.openAs(info.ID, "mine")
	r.start(opts)
	r.follow()
	return r
}

func (r *rig) openAs(store, session string) *memory.Store {
	r.Helper()
	st, err := r.lib.Open(r.Context(), store, memory.SessionAuthor(session))
	r.must(err)
	return st
}

// start makes the session.
func (r *rig) start(opts *Options) {
	o := Options{}
	if opts != nil {
		o = *opts
	}
	o.ID, o.Followed = "mine", true
	r.s = New(r.mine, &o)
	r.s.sleep = func(context.Context, time.Duration) { r.slept++ }
	r.Cleanup(r.s.Close)
}

// keeping are options with which what loses is kept on disk.
func keeping(t *testing.T) *Options { return &Options{Conflicts: conflict.New(t.TempDir())} }

func (r *rig) must(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

// theirs writes a memory as the other session.
func (r *rig) theirs(path, text string) versionlog.Version {
	r.Helper()
	v, err := r.other.Write(r.Context(), path, []byte(text), versionlog.ExpectAny())
	r.must(err)
	return v
}

// theyAppend adds to a memory as the other session.
func (r *rig) theyAppend(path, text string) {
	r.Helper()
	_, data, err := r.other.Read(r.Context(), path)
	if !errors.Is(err, versionlog.ErrNotFound) {
		r.must(err)
	}
	r.theirs(path, string(data)+text)
}

func (r *rig) theyRemove(path string) {
	_, _ = r.other.Remove(r.Context(), path, versionlog.ExpectAny())
}

func (r *rig) theyRename(from, to string) {
	r.Helper()
	_, err := r.other.Rename(r.Context(), from, to, nil)
	r.must(err)
}

// follow brings what is in the log into what the face shows, as a follower does.
func (r *rig) follow() {
	r.Helper()
	r.mu.Lock()
	applied := r.applied
	r.mu.Unlock()
	for c, err := range r.other.Commits(r.Context(), applied) {
		r.must(err)
		r.meet(c)
	}
}

// followIdle is follow up to a commit that the session is making at the moment.
func (r *rig) followIdle() {
	r.Helper()
	r.mu.Lock()
	applied := r.applied
	r.mu.Unlock()
	for c, err := range r.other.Commits(r.Context(), applied) {
		r.must(err)
		r.s.mu.Lock()
		one := r.s.pending[c.Key]
		busy := one != nil && one.makers > 0
		r.s.mu.Unlock()
		if busy {
			return
		}
		r.meet(c)
	}
}

func (r *rig) meet(c *versionlog.Commit) {
	var met Met
	for {
		r.s.AwaitOwn(r.Context(), c.Key)
		r.mu.Lock()
		if met = r.s.Meet(c); !met.Again {
			break
		}
		r.mu.Unlock()
	}
	defer r.mu.Unlock()
	switch {
	case met.Own:
	case met.Text != nil:
		met.Text.(*staged).committedLocked(met.Draft, memory.NewHead(&c.Versions[0]))
	default:
		for _, v := range c.Versions {
			r.bringLocked(v)
		}
		if met.Named {
			r.s.Adopt(c, func(path string) *memory.Head { return r.heads[path] })
		}
	}
	r.applied = c.Seq
}

// bringLocked shows a version of another session.
func (r *rig) bringLocked(v versionlog.Version) {
	if now := r.heads[v.Path]; now != nil && now.Seq() >= v.Seq {
		return
	}
	switch v.Op {
	case versionlog.OpDeleted:
		delete(r.heads, v.Path)
		r.s.Known().Went(v.Path)
		return
	case versionlog.OpRenamed:
		delete(r.heads, v.From)
		r.s.Known().Followed(v.From, v.Path, r.heads[v.Path] == nil)
		r.movedLocked(v)
	}
	r.heads[v.Path] = memory.NewHead(&v)
	r.s.Known().Came(v.Path)
}

// read reads a path as the face shows it.
func (r *rig) read(path string) string {
	r.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	v := r.heads[path]
	if v == nil {
		return ""
	}
	data, err := r.mine.ContentOf(r.Context(), v)
	r.must(err)
	r.s.Known().Update(path, func(k Knowledge) Knowledge { return k.Read(v) })
	return string(data)
}

// rename is a rename of a memory by the face.
func (r *rig) rename(from, to string) error {
	release, err := r.s.Settle(r.Context(), func() []Claim { return []Claim{{Path: from}, {Path: to}} }, nil)
	if err != nil {
		return err
	}
	defer release()
	return r.s.Commit(r.Context(), Proposal{Run: func(ctx context.Context, opts *memory.CommitOptions) (*versionlog.Commit, error) {
		return r.mine.Rename(ctx, from, to, opts)
	}}, r.brought)
}

// unlink is the removal of a memory by the face.
func (r *rig) unlink(path string) error {
	release, err := r.s.Settle(r.Context(), func() []Claim { return []Claim{{Path: path}} }, nil)
	if err != nil {
		return err
	}
	defer release()
	return r.s.Commit(r.Context(), Proposal{Run: func(ctx context.Context, opts *memory.CommitOptions) (*versionlog.Commit, error) {
		return r.mine.Batch(ctx, []memory.Change{{Action: versionlog.Remove, Path: path, Expect: versionlog.ExpectExists()}}, opts)
	}}, r.brought)
}

func (r *rig) brought(c *versionlog.Commit) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, v := range c.Versions {
		switch v.Op {
		case versionlog.OpDeleted:
			delete(r.heads, v.Path)
			continue
		case versionlog.OpRenamed:
			delete(r.heads, v.From)
			r.movedLocked(v)
		}
		r.heads[v.Path] = memory.NewHead(&v)
	}
	r.s.Freed(c)
}

// movedLocked has what is being written follow a rename.
func (r *rig) movedLocked(v versionlog.Version) {
	for _, st := range r.stages {
		if st.path == v.From {
			if st.path = v.Path; st.base != nil && st.base.ID() == v.Parent {
				st.base = memory.NewHead(&v)
			}
		}
	}
}

// wantAsLog compares what the face shows with the log, when all has been followed.
func (r *rig) wantAsLog() {
	r.Helper()
	r.follow()
	want := map[string]string{}
	for v, err := range r.other.Heads(r.Context(), "/") {
		r.must(err)
		want[v.Path] = v.ID
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	got := map[string]string{}
	for path, v := range r.heads {
		got[path] = v.ID()
	}
	if !maps.Equal(got, want) {
		r.Errorf("the face shows %v, the log has %v", got, want)
	}
}

// wantText compares the newest content of a path; "" is no memory.
func (r *rig) wantText(path, want string) {
	r.Helper()
	_, data, err := r.other.Read(r.Context(), path)
	if err != nil && !errors.Is(err, versionlog.ErrNotFound) || string(data) != want {
		r.Errorf("%s holds %q, %v; want %q", path, data, err, want)
	}
}

// inHistory counts the versions that hold a text.
func (r *rig) inHistory(text string) (n int) {
	for c, err := range r.other.Commits(r.Context(), 0) {
		r.must(err)
		for _, v := range c.Versions {
			if v.Live() && !v.IsDir() {
				data, err := r.other.Content(r.Context(), v)
				r.must(err)
				if strings.Contains(string(data), text) {
					n++
				}
			}
		}
	}
	return n
}

// wantSettled reports what is left of commits, once all has been followed.
func (r *rig) wantSettled() {
	r.Helper()
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	for key, one := range r.s.pending {
		r.Errorf("pending: %s %+v", key, *one)
	}
	if !r.s.claims.Idle() {
		r.Error("claims are still held")
	}
}

// kept returns the texts that are kept, oldest first.
func (r *rig) kept() (texts []string) {
	r.Helper()
	ids, err := r.s.opts.Conflicts.IDs()
	r.must(err)
	for _, id := range ids {
		yours, err := r.s.opts.Conflicts.Read(id, conflict.YoursFile)
		r.must(err)
		texts = append(texts, string(yours))
	}
	return texts
}

func (r *rig) wantKept(want ...string) {
	r.Helper()
	if got := r.kept(); !slices.Equal(got, want) {
		r.Errorf("kept are %q, want %q", got, want)
	}
}

// staged is a file that is being written, as a mount stages it: a Text.
type staged struct {
	r    *rig
	turn Turn
	lost LostReply

	path     string
	base     *memory.Head
	data     string
	appended string // of an append: what has been added since the newest commit
	appends  bool
	fresh    bool // base was read through the handle that writes
	dirty    bool
	changes  uint64
	overtook bool // it has lost
	conflict int
	at       uint64 // changes, when that was kept

	drafts map[string]int // how often each key was told to be committed
	losses []string       // the texts that were to be kept
	beside func(commit func() error) error
}

// open opens a file to be overwritten, or appended to.
func (r *rig) open(path string, appends bool) *staged {
	r.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	st := &staged{r: r, path: path, base: r.heads[path], appends: appends, drafts: map[string]int{}}
	if st.base == nil {
		r.s.Known().Set(path, Nothing())
	} else {
		data, err := r.mine.ContentOf(r.Context(), st.base)
		r.must(err)
		st.data = string(data)
	}
	r.stages = append(r.stages, st)
	return st
}

// write replaces what is staged, or adds to it.
func (st *staged) write(text string) {
	st.r.mu.Lock()
	defer st.r.mu.Unlock()
	if st.appends {
		if head := st.r.heads[st.path]; !st.dirty && !memory.SameText(st.base, head) {
			st.base, st.data = head, ""
			if head != nil {
				data, err := st.r.mine.ContentOf(st.r.Context(), head)
				st.r.must(err)
				st.data = string(data)
			}
		}
		st.data, st.appended = st.data+text, st.appended+text
	} else {
		st.data = text
	}
	st.dirty = true
	st.changes++
}

func (st *staged) save() error { return st.r.s.Save(st.r.Context(), st, nil) }

func (st *staged) Turn() *Turn           { return &st.turn }
func (st *staged) LostReply() *LostReply { return &st.lost }

func (st *staged) Path() string {
	st.r.mu.Lock()
	defer st.r.mu.Unlock()
	return st.path
}

func (st *staged) Draft(decided string) (*Draft, error) {
	st.r.mu.Lock()
	defer st.r.mu.Unlock()
	if !st.dirty {
		return nil, nil
	}
	head := st.r.heads[st.path]
	d := &Draft{Path: st.path, Data: []byte(st.data), Base: st.base, Mark: st.changes, Theirs: head}
	if st.appends {
		d.Append, d.Added = true, len(st.appended)
	} else if !st.fresh {
		d.Judge = st.r.s.Known().Of(st.path).ToJudge()
	}
	d.Lost = st.overtook || !st.appends && st.path != decided && !memory.SameText(st.base, head)
	d.Unchanged = !d.Lost && d.Base != nil && d.Base.Digest() == cas.Sum(d.Data)
	return d, nil
}

func (st *staged) Met(d *Draft, theirs *versionlog.Version) {
	st.r.mu.Lock()
	defer st.r.mu.Unlock()
	switch now := st.r.heads[d.Path]; {
	case theirs != nil && theirs.Seq > st.r.applied && (now == nil || now.Seq() < theirs.Seq):
		st.r.bringLocked(*theirs)
	case theirs == nil && now != nil && memory.SameVersion(now, d.Base):
		delete(st.r.heads, d.Path)
		st.r.s.Known().Went(d.Path)
	}
}

func (st *staged) Rebase(d *Draft, theirs *memory.Head, content []byte) bool {
	st.r.mu.Lock()
	defer st.r.mu.Unlock()
	switch {
	case st.path != d.Path:
		return d.Append
	case d.Append:
		st.base, st.data = theirs, string(content)+st.appended
	case st.changes != d.Mark:
		return false
	default:
		st.base, st.data = theirs, string(content)
	}
	st.overtook = false
	return true
}

func (st *staged) Committed(d *Draft, v *versionlog.Version, _ *versionlog.Commit) {
	st.r.mu.Lock()
	defer st.r.mu.Unlock()
	st.committedLocked(d, memory.NewHead(v))
}

func (st *staged) committedLocked(d *Draft, v *memory.Head) {
	st.drafts[d.Key]++
	st.r.s.Holds(d, v)
	if now := st.r.heads[v.Path()]; v.Seq() > st.r.applied && (now == nil || now.Seq() < v.Seq()) || now != nil && now.Seq() < v.Seq() {
		st.r.heads[v.Path()] = v
	}
	st.base, st.overtook = v, false
	if st.changes == d.Mark {
		st.dirty = false
	}
	if d.Append {
		st.appended = st.appended[min(d.Added, len(st.appended)):]
	}
}

func (st *staged) Lost(d *Draft) Loss {
	st.r.mu.Lock()
	defer st.r.mu.Unlock()
	st.overtook = true
	st.losses = append(st.losses, st.data)
	st.r.s.Loses(st.path, st.base)
	return Loss{
		Path: st.path, Base: st.base, Theirs: st.r.heads[st.path], Yours: []byte(st.data),
		Mark: st.changes, Conflict: st.conflict, IsKept: st.conflict != 0 && st.at == st.changes,
	}
}

func (st *staged) Kept(l Loss) {
	st.r.mu.Lock()
	defer st.r.mu.Unlock()
	st.base, st.conflict, st.at = l.Base, l.Conflict, l.Mark
}

func (st *staged) Beside(_ *Draft, commit func() error) error {
	if st.beside != nil {
		return st.beside(commit)
	}
	return commit()
}
