package pack

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"mneme/memory"
	"mneme/versionlog"
)

// fate is what commits made of a memory: where it was before them, and where it is since; ""
// where it was not, or is not any more.
type fate struct {
	before, after string
	last          versionlog.Version
}

// writeChanges writes what changed after a commit: a list of paths, then what the memories
// hold now, the newest first.
func (p *page) writeChanges(ctx context.Context, st *memory.Store, at moment, o *Options) error {
	since := *o.Since
	if since > at.seq {
		return &OptionError{"Since", noChanges(st, since, at.seq, o)}
	}
	fates, err := fatesOf(ctx, st, since, at.seq)
	if err != nil {
		return err
	}
	changed := changesOf(fates, o.Prefix)
	var heads []*memory.Head
	for i := range changed {
		if changed[i].there {
			heads = append(heads, memory.NewHead(&changed[i].last))
		}
	}
	p.begin(st, at, len(heads))
	p.writeList(p.frame("changes after %d, up to %d: %s below %s", since, at.seq, memories(len(changed)), shown(o.Prefix)),
		func(yield func(string, int) bool) {
			for _, c := range changed {
				if !yield(c.line(), 1) {
					return
				}
			}
		}, len(changed))
	c := contents{page: p, store: st}
	if err := c.writeNewest(ctx, heads, "changed"); err != nil {
		return err
	}
	p.end()
	return nil
}

// noChanges is the error of changes after a commit behind the last one of the pack.
func noChanges(st *memory.Store, since, last uint64, o *Options) error {
	if o.Seq == 0 {
		return noCommit(st, since, last)
	}
	return fmt.Errorf("%w: there are no changes after commit %d; the store is shown as of %d, and 0 to %[3]d can be asked for", ErrOptions, since, last)
}

// fatesOf returns what the commits after one, up to another, made of each memory that they
// changed, by its id.
func fatesOf(ctx context.Context, st *memory.Store, since, upTo uint64) (map[string]fate, error) {
	fates := map[string]fate{}
	if since == upTo {
		return fates, nil
	}
	for c, err := range st.Commits(ctx, since) {
		if err != nil {
			return nil, err
		}
		if c.Seq > upTo {
			break
		}
		for _, v := range c.Versions {
			if v.Redacted() || v.IsDir() {
				continue
			}
			f, known := fates[v.MemoryID]
			switch {
			case known:
			case v.Op == versionlog.OpRenamed:
				f.before = v.From
			case v.Op != versionlog.OpCreated:
				f.before = v.Path
			}
			if f.after, f.last = "", v; v.Live() {
				f.after = v.Path
			}
			fates[v.MemoryID] = f
		}
	}
	return fates, nil
}

// change is what became of a path.
type change struct {
	what  string
	path  string
	there bool // there is a memory
	last  versionlog.Version
}

// line is what the list says of it.
func (c *change) line() string {
	return fmt.Sprintf("%s %s v%d by %s\n", c.what, shown(c.path), c.last.Seq, word(c.last.Actor.String()))
}

// changesOf returns the changes of the paths at and below a prefix, the newest first. Other
// paths are not named: a memory that came from one was created, and a memory that went to
// one has moved away. A path that one memory left and another one took was modified, as by
// a program that saves a file by renaming another one to its name.
func changesOf(fates map[string]fate, prefix string) (changed []change) {
	left := map[string]fate{}
	for id, f := range fates {
		if !liesIn(f.before, prefix) {
			f.before = ""
		}
		if !liesIn(f.after, prefix) {
			f.after = ""
		}
		if f.before != "" && f.after != f.before {
			left[f.before] = f
		}
		fates[id] = f
	}
	for _, f := range fates {
		if f.after == "" {
			continue
		}
		_, taken := left[f.after]
		delete(left, f.after)
		changed = append(changed, change{what: f.became(taken), path: f.after, there: true, last: f.last})
	}
	for path, f := range left {
		switch {
		case f.after != "": // it was renamed, which is said there
		case f.last.Live():
			changed = append(changed, change{what: "moved away", path: path, last: f.last})
		default:
			changed = append(changed, change{what: "deleted", path: path, last: f.last})
		}
	}
	slices.SortFunc(changed, func(a, b change) int {
		return cmp.Or(cmp.Compare(b.last.Seq, a.last.Seq), strings.Compare(a.path, b.path))
	})
	return changed
}

// became says what a memory became that is there; taken: another one was there before.
func (f *fate) became(taken bool) string {
	switch {
	case f.before == "" && !taken:
		return "created"
	case f.before == "" || f.before == f.after:
		return "modified"
	}
	return "renamed " + shown(f.before) + " ->"
}
