package versionlog

import (
	"errors"
	"iter"
	"strings"
	"testing"
	"time"
)

// mapView is a View of versions by path.
type mapView map[string]*Version

func (m mapView) Head(path string) (*Version, error) { return m[path], nil }

func (m mapView) Below(path string) iter.Seq2[Version, error] {
	return func(yield func(Version, error) bool) {
		for at, v := range m {
			if strings.HasPrefix(at, path+"/") && !yield(*v, nil) {
				return
			}
		}
	}
}

func (m mapView) Newest(memoryID string) (*Version, error) {
	for _, v := range m {
		if v.MemoryID == memoryID {
			return v, nil
		}
	}
	return nil, nil
}

// TestAdoptRefuses: a commit whose digests are all right is not adopted unless it
// follows from the state before.
func TestAdoptRefuses(t *testing.T) {
	store, at := Store{ID: "memstore_1", Epoch: 1}, time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	propose := func(view View, tip Tip, changes ...Change) *Commit {
		t.Helper()
		c, err := Build(view, store, tip, &Proposal{Key: NewKey(), Changes: changes}, at)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	put := func(path string) Change {
		return Change{Action: Put, Path: path, Digest: Digest{1}, Size: 1, Expect: ExpectAny()}
	}
	first := propose(mapView{}, Tip{}, put("/a"), put("/d/b"), put("/c"))
	view, tip := mapView{}, Tip{}.After(first)
	for i := range first.Versions {
		view[first.Versions[i].Path] = &first.Versions[i]
	}
	changed := put("/a")
	changed.Digest = Digest{2}
	second := propose(view, tip, changed,
		Change{Action: Rename, Path: "/d/b", To: "/d/e", Expect: ExpectAny()}, Change{Action: Remove, Path: "/c", Expect: ExpectAny()}, put("/new"))

	adopt := func(change func(*Commit)) error {
		c := *second
		c.Versions, c.Seals = append([]Version(nil), c.Versions...), append([]Seal(nil), c.Seals...)
		change(&c)
		for i := range c.Versions {
			v := &c.Versions[i]
			v.Seq, v.Time = c.Seq, c.Time
			c.Seals[i].Payload = payloadDigest(c.Format, c.Seals[i].Salt, v)
		}
		c.Digest = chainDigest(&c)
		p := &Proposal{Key: c.Key, Finished: &c}
		for i := range c.Versions {
			p.Changes = append(p.Changes, changeOf(&c.Versions[i]))
		}
		_, err := Build(view, store, tip, p, at)
		return err
	}
	if err := adopt(func(*Commit) {}); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*Commit){
		"of another store":         func(c *Commit) { c.StoreID = "memstore_2" },
		"a gap":                    func(c *Commit) { c.Seq++ },
		"of another history":       func(c *Commit) { c.Prev[0]++ },
		"of a later epoch":         func(c *Commit) { c.Epoch = 2 },
		"earlier":                  func(c *Commit) { c.Time = c.Time.Add(-time.Second) },
		"another parent":           func(c *Commit) { c.Versions[0].Parent = first.Versions[2].ID },
		"another memory":           func(c *Commit) { c.Versions[0].MemoryID = first.Versions[2].MemoryID },
		"a memory that lives":      func(c *Commit) { c.Versions[3].MemoryID = first.Versions[0].MemoryID },
		"a parent from nowhere":    func(c *Commit) { c.Versions[3].Parent = first.Versions[0].ID },
		"onto a head":              func(c *Commit) { c.Versions[3].Path = "/d/b" },
		"below a memory":           func(c *Commit) { c.Versions[3].Path = "/a/x" },
		"where a directory is":     func(c *Commit) { c.Versions[3].Path = "/d" },
		"renamed from nowhere":     func(c *Commit) { c.Versions[1].From = "/nowhere" },
		"renamed onto a head":      func(c *Commit) { c.Versions[1].Path = "/a" },
		"renamed with new content": func(c *Commit) { c.Versions[1].Digest[0]++ },
		"deleted, with content":    func(c *Commit) { c.Versions[2].Digest = Digest{3} },
		"deleted from nowhere":     func(c *Commit) { c.Versions[2].Path = "/nowhere" },
		"a change of nothing":      func(c *Commit) { c.Versions[0].Digest = first.Versions[0].Digest },
		"no path":                  func(c *Commit) { c.Versions[3].Path = "" },
		"an id of another place":   func(c *Commit) { c.Versions[3].ID = newVersionID(c.Seq, 2) },
		"an id of another commit":  func(c *Commit) { c.Versions[3].ID = newVersionID(c.Seq+1, 3) },
		"an unknown operation":     func(c *Commit) { c.Versions[0].Op = "other" },
		"another author":           func(c *Commit) { c.Versions[0].Message = "!" },
	} {
		if err := adopt(change); !errors.Is(err, ErrInvalid) && !errors.Is(err, ErrConflict) && !errors.Is(err, ErrOverlap) {
			t.Errorf("%s: %v, want it refused", name, err)
		}
	}
}
