package gateway

import (
	"errors"
	"fmt"
	"strings"

	"mneme/gateway/wire"
	"mneme/versionlog"
)

// rules check the answers of a server: it must return nothing that a log cannot have. Ids
// and slugs become names of directories. Proposals have more rules, which a history from
// elsewhere need not keep.
type rules struct {
	store func(versionlog.Store) error // nil: nothing besides
}

// checkStore returns an ErrProtocol for an invalid store.
func (r rules) checkStore(s versionlog.Store) error {
	err := versionlog.CheckStoreID(s.ID)
	if err == nil && r.store != nil {
		err = r.store(s)
	}
	if err != nil {
		return fmt.Errorf("%w: a store: %w", ErrProtocol, err)
	}
	return nil
}

// version returns why a version can be none.
func (r rules) version(v *versionlog.Version) error {
	if err := r.ids(v); err != nil {
		return err
	}
	if v.Redacted() {
		if v.From != "" || v.Spelling != "" || !v.Digest.IsZero() || v.Size != 0 {
			return fmt.Errorf("version %s has a part of what was erased", v.ID)
		}
		return nil
	}
	if v.Size < 0 {
		return fmt.Errorf("version %s has %d bytes", v.ID, v.Size)
	}
	if (v.From != "") != (v.Op == versionlog.OpRenamed) {
		return fmt.Errorf("version %s has an operation that it cannot be of", v.ID)
	}
	for _, path := range []string{v.Path, v.From} {
		if path != "" && !versionlog.IsPath(path) {
			return fmt.Errorf("the path %.100q", path)
		}
	}
	return nil
}

// ids checks the ids of a version, of which its own tells where it stands.
func (r rules) ids(v *versionlog.Version) error {
	seq, _, err := versionlog.LocateVersion(v.ID)
	if err == nil && (seq != v.Seq || seq == 0) {
		err = fmt.Errorf("version %s is said to be of commit %d", v.ID, v.Seq)
	}
	if err == nil {
		_, err = versionlog.ParseMemoryID(v.MemoryID)
	}
	if err == nil && v.Parent != "" {
		_, err = versionlog.ParseVersionID(v.Parent)
	}
	return err
}

// commit returns why a commit can be none of a store.
func (r rules) commit(storeID string, c *versionlog.Commit) error {
	if c.StoreID != storeID {
		return errors.New("a commit of another store")
	}
	for i := range c.Versions {
		if err := r.version(&c.Versions[i]); err != nil {
			return fmt.Errorf("commit %d: %w", c.Seq, err)
		}
	}
	return nil
}

// conflict returns an ErrProtocol for a conflict with an invalid version.
func (r rules) conflict(c *versionlog.ConflictError) error {
	for _, one := range c.Conflicts {
		if one.Head == nil {
			continue
		}
		if err := r.version(one.Head); err != nil {
			return fmt.Errorf("%w: a conflict: %w", ErrProtocol, err)
		}
	}
	return nil
}

// ascends returns the check of a walk over heads in the order of their paths.
func (r rules) ascends(a *wire.Ask) func(*versionlog.Version, versionlog.Version) error {
	prefix, after := string(a.Path), string(a.After)
	below := strings.TrimSuffix(prefix, "/") + "/"
	return func(last *versionlog.Version, one versionlog.Version) error {
		switch {
		case one.Path != prefix && !strings.HasPrefix(one.Path, below):
			return fmt.Errorf("the path %.100q is not below %.100q", one.Path, prefix)
		case last != nil && one.Path <= last.Path, after != "" && one.Path <= after:
			return fmt.Errorf("the path %.100q is out of order", one.Path)
		case a.At != nil && one.Seq > *a.At:
			return fmt.Errorf("version %s is not of commit %d or before", one.ID, *a.At)
		}
		return r.version(&one)
	}
}

// descends returns the check of a walk over versions from new to old, all below a commit; 0 is
// any.
func (r rules) descends(before uint64, belongs func(*versionlog.Version) bool) func(*versionlog.Version, versionlog.Version) error {
	return func(last *versionlog.Version, one versionlog.Version) error {
		if !belongs(&one) || last != nil && one.Seq > last.Seq || before != 0 && one.Seq >= before {
			return fmt.Errorf("version %s has no place in the answer", one.ID)
		}
		return r.version(&one)
	}
}

// follows returns the check of a walk over all commits above one.
func (r rules) follows(storeID string, after uint64) func(**versionlog.Commit, *versionlog.Commit) error {
	return func(last **versionlog.Commit, one *versionlog.Commit) error {
		want := after + 1
		if last != nil {
			want = (*last).Seq + 1
		}
		if one.Seq != want || !one.Changes() || last != nil && one.Prev != (*last).Digest {
			return fmt.Errorf("a commit %d, where %d follows", one.Seq, want)
		}
		return r.commit(storeID, one)
	}
}

// precedes returns the check of a walk over some commits below one, from new to old; 0 is from
// the newest on.
func (r rules) precedes(storeID string, before uint64) func(**versionlog.Commit, *versionlog.Commit) error {
	return func(last **versionlog.Commit, one *versionlog.Commit) error {
		most := before
		if last != nil {
			most = (*last).Seq
		}
		if !one.Changes() || most != 0 && one.Seq >= most {
			return fmt.Errorf("a commit %d, where some below %d are asked for", one.Seq, most)
		}
		return r.commit(storeID, one)
	}
}
