package forget

import (
	"context"
	"fmt"
	"slices"
	"time"

	"mneme/cas"
	"mneme/memory"
	"mneme/versionlog"
)

// Expired are the versions of a store that its rule lets go of.
type Expired struct {
	Rule     versionlog.Retention
	Versions []string // ids, oldest first
	Begun    []string // ids of those that are erased, and have left something where the log keeps them
	Contents int      // that no other version has
	Bytes    int64    // of those contents
}

// FindExpired returns the versions that the store's rule lets go of at a time. A version
// that was replaced less than grace ago stays whatever the rule says, since files that
// programs have open are based on such versions. Progress is called with the number of
// commits that were read.
func FindExpired(ctx context.Context, st *memory.Store, now time.Time, grace time.Duration, progress func(done, total int)) (*Expired, error) {
	found := &Expired{Rule: st.Info().Policy.Retention}
	if found.Rule == (versionlog.Retention{}) {
		return found, nil
	}
	tip, err := st.Tip(ctx)
	if err != nil {
		return nil, err
	}
	left, err := unpurged(ctx, st)
	if err != nil {
		return nil, err
	}
	all := &census{lives: map[string][]int{}, users: map[cas.Digest]int{}, begun: map[string]bool{}}
	for c, err := range st.Commits(ctx, 0) {
		if err != nil {
			return nil, fmt.Errorf("store %s: %w", st.Info().Slug, err)
		}
		all.add(c, left[c.Seq])
		progress(int(c.Seq), int(tip.Seq))
	}
	all.judge(found.Rule, now, grace)
	all.report(found)
	return found, nil
}

// census is all versions of a store, as a rule of retention judges them.
type census struct {
	versions []aged
	lives    map[string][]int   // by memory: the places of its versions, oldest first
	users    map[cas.Digest]int // how many versions have a content
	begun    map[string]bool    // ids of versions whose erasure by a rule has begun and not ended
}

// add adds the versions of a commit. An unpurged commit is an event whose versions have left something
// where the log keeps them.
func (a *census) add(c *versionlog.Commit, unpurged bool) {
	if unpurged && c.IsEvent(versionlog.EventRetention) {
		for _, id := range c.Event.ErasedVersions() {
			a.begun[id] = true
		}
	}
	for i := range c.Versions {
		v := &c.Versions[i]
		a.lives[v.MemoryID] = append(a.lives[v.MemoryID], len(a.versions))
		a.versions = append(a.versions, aged{id: v.ID, at: c.Time, digest: v.Digest, size: v.Size, live: v.Live(), erased: v.Redacted()})
		a.users[v.Digest]++
	}
}

// judge marks the versions that a rule lets go of.
func (a *census) judge(rule versionlog.Retention, now time.Time, grace time.Duration) {
	for _, life := range a.lives {
		for i, place := range life {
			v, newer := &a.versions[place], len(life)-1-i
			replaced := v.at
			if newer > 0 {
				replaced = a.versions[life[i+1]].at
			}
			v.goes = (newer > 0 || !v.live) && now.Sub(replaced) >= grace && !keeps(rule, newer, now.Sub(replaced))
		}
	}
}

// report adds the marked versions to found, and the contents that no other version has.
func (a *census) report(found *Expired) {
	for i := range a.versions {
		v := &a.versions[i]
		if v.goes && v.erased && a.begun[v.id] {
			found.Begun = append(found.Begun, v.id)
		}
		if !v.goes || v.erased {
			continue
		}
		found.Versions = append(found.Versions, v.id)
		if a.users[v.digest]--; a.users[v.digest] == 0 && !v.digest.IsZero() {
			found.Contents++
			found.Bytes += v.size
		}
	}
}

// unpurged returns the events whose versions have left something where the log keeps them.
func unpurged(ctx context.Context, st *memory.Store) (map[uint64]bool, error) {
	found := map[uint64]bool{}
	seqs, err := st.Unpurged(ctx)
	for _, seq := range seqs {
		found[seq] = true
	}
	return found, err
}

// aged is what a rule judges of a version.
type aged struct {
	id     string
	at     time.Time
	digest cas.Digest
	size   int64

	live, erased, goes bool
}

// keeps reports whether a rule keeps a version of which so many newer ones of its memory are
// there, and that was replaced so long ago.
func keeps(rule versionlog.Retention, newer int, since time.Duration) bool {
	const day = 24 * time.Hour
	return rule.KeepVersions > 0 && int64(newer) < rule.KeepVersions ||
		rule.KeepDays > 0 && int64(since/day) < rule.KeepDays
}

// LetGo erases the versions that FindExpired has found, as Redact does, by events that name the rule.
// Versions that were erased meanwhile are skipped. An erasure that was begun is finished if the rule still
// lets go of its versions. Kept conflicts of these versions stay until they expire. Progress is called
// with the number of erased versions. The receipt lists the erased versions, also with an error.
//
// Errors: those of Redact; versionlog.ErrInvalid where the store has another rule now.
func LetGo(ctx context.Context, st *memory.Store, e *Expired, progress func(done, total int)) (*Receipt, error) {
	event := func(ids ...string) *versionlog.Event { return versionlog.RetentionApplied(e.Rule, ids...) }
	r := newReceipt(st, "retention", "")
	one := &erasure{st, slices.Concat(e.Begun, e.Versions), r}
	return r, one.erase(ctx, "", event, func(done int) { progress(done, len(e.Versions)) })
}
