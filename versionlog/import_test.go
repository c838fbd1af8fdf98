package versionlog

import (
	"errors"
	"iter"
	"math"
	"slices"
	"strconv"
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
		"of another store":        func(c *Commit) { c.StoreID = "memstore_2" },
		"a gap":                   func(c *Commit) { c.Seq++ },
		"of another history":      func(c *Commit) { c.Prev[0]++ },
		"of a later epoch":        func(c *Commit) { c.Epoch = 2 },
		"earlier":                 func(c *Commit) { c.Time = c.Time.Add(-time.Second) },
		"another parent":          func(c *Commit) { c.Versions[0].Parent = first.Versions[2].ID },
		"another memory":          func(c *Commit) { c.Versions[0].MemoryID = first.Versions[2].MemoryID },
		"a memory of no such id":  func(c *Commit) { c.Versions[3].MemoryID = "mem_a#b" },
		"a memory that lives":     func(c *Commit) { c.Versions[3].MemoryID = first.Versions[0].MemoryID },
		"a parent from nowhere":   func(c *Commit) { c.Versions[3].Parent = first.Versions[0].ID },
		"onto a head":             func(c *Commit) { c.Versions[3].Path = "/d/b" },
		"below a memory":          func(c *Commit) { c.Versions[3].Path = "/a/x" },
		"where a directory is":    func(c *Commit) { c.Versions[3].Path = "/d" },
		"renamed from nowhere":    func(c *Commit) { c.Versions[1].From = "/nowhere" },
		"renamed onto a head":     func(c *Commit) { c.Versions[1].Path = "/a" },
		"renamed without content": func(c *Commit) { c.Versions[1].Digest = Digest{} },
		"deleted, with content":   func(c *Commit) { c.Versions[2].Digest = Digest{3} },
		"deleted from nowhere":    func(c *Commit) { c.Versions[2].Path = "/nowhere" },
		"a change of nothing":     func(c *Commit) { c.Versions[0].Digest = first.Versions[0].Digest },
		"no path":                 func(c *Commit) { c.Versions[3].Path = "" },
		"an id of another place":  func(c *Commit) { c.Versions[3].ID = newVersionID(c.Seq, 2) },
		"an id of another commit": func(c *Commit) { c.Versions[3].ID = newVersionID(c.Seq+1, 3) },
		"an unknown operation":    func(c *Commit) { c.Versions[0].Op = "other" },
		"another author":          func(c *Commit) { c.Versions[0].Message = "!" },
	} {
		if err := adopt(change); !errors.Is(err, ErrInvalid) && !errors.Is(err, ErrConflict) && !errors.Is(err, ErrOverlap) {
			t.Errorf("%s: %v, want it refused", name, err)
		}
	}
}

// TestAdoptRefusesEvents: an event from elsewhere does no more to a store than one that is
// proposed.
func TestAdoptRefusesEvents(t *testing.T) {
	at := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	store, tip := Store{ID: "memstore_1", Epoch: 3}, Tip{Seq: 7, Digest: Digest{7}, Time: at}
	adopt := func(tip Tip, epoch uint64, e *Event) (*Commit, error) {
		c := &Commit{
			Format: RecordFormat, StoreID: store.ID, Seq: tip.Seq + 1, Epoch: epoch, Time: at,
			Key: NewKey(), Prev: tip.Digest, Event: e, Versions: []Version{}, Seals: []Seal{},
		}
		c.Digest = chainDigest(c)
		return Build(mapView{}, store, tip, &Proposal{Key: c.Key, Event: e, Finished: c}, at)
	}
	fields := func(kind EventKind, pairs ...string) *Event {
		e := &Event{Kind: kind, Fields: map[string]string{}}
		for i := 0; i < len(pairs); i += 2 {
			e.Fields[pairs[i]] = pairs[i+1]
		}
		return e
	}
	manyPairs := fields(EventUpdated)
	for i := range MaxMetaPairs + 1 {
		manyPairs.Fields[metadataPrefix+strconv.Itoa(i)] = "1"
	}
	for name, c := range map[string]struct {
		tip   Tip
		epoch uint64
		event *Event
	}{
		"created again":              {tip, 3, fields(EventCreated, "name", "other")},
		"too many pairs":             {tip, 3, manyPairs},
		"too long a value":           {tip, 3, fields(EventUpdated, "metadata.a", strings.Repeat("x", MaxMetaValue+1))},
		"no key":                     {tip, 3, fields(EventUpdated, "metadata.", "x")},
		"content of no kind":         {Tip{}, 3, fields(EventCreated, "content", "other")},
		"created at no time":         {Tip{}, 3, fields(EventCreated, "created_at", "yesterday")},
		"created when no year is":    {Tip{}, 3, fields(EventCreated, "created_at", "9223372036854775807")},
		"promoted to the last epoch": {tip, math.MaxUint64, StorePromoted()},
		"promoted to its own epoch":  {tip, 3, StorePromoted()},
		"promoted to one before":     {tip, 2, StorePromoted()},
		"updated in a later epoch":   {tip, 4, fields(EventUpdated, "name", "other")},
	} {
		if got, err := adopt(c.tip, c.epoch, c.event); !errors.Is(err, ErrInvalid) && !errors.Is(err, ErrFenced) {
			t.Errorf("%s: %v, %v; want it refused", name, got, err)
		}
	}
	for name, e := range map[string]*Event{"updated": fields(EventUpdated, "name", "other"), "archived": StoreArchived()} {
		if _, err := adopt(tip, 3, e); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := adopt(tip, 9, StorePromoted()); err != nil {
		t.Errorf("promoted over several epochs: %v", err)
	}
}

// TestEpochsEnd: a promotion does not restart the count of epochs.
func TestEpochsEnd(t *testing.T) {
	_, err := Build(mapView{}, Store{ID: "memstore_1", Epoch: maxEpoch}, Tip{}, &Proposal{Key: NewKey(), Event: StorePromoted()}, time.Now())
	if !errors.Is(err, ErrInvalid) {
		t.Errorf("a promotion beyond the last epoch: %v, want ErrInvalid", err)
	}
}

// TestUpdateLeavesCreation: what only the creation of a store says, no update changes.
func TestUpdateLeavesCreation(t *testing.T) {
	before := Store{ID: "memstore_1", Epoch: 1, Limits: Limits{Content: ContentText}, CreatedAt: time.Unix(1, 0).UTC()}
	e := &Event{Kind: EventUpdated, Fields: map[string]string{"content": "any", "created_at": "5", "name": "new"}}
	c := &Commit{Epoch: 1, Time: time.Unix(2, 0).UTC(), Event: e}
	want := before
	want.Name, want.UpdatedAt = "new", c.Time
	if got := before.After(c, false); !got.equal(&want) {
		t.Errorf("the store is %+v, want %+v", got, want)
	}
}

// TestAdoptRefusesWhatNoRecordHolds: a commit whose record reads as another is not
// adopted: it could not be read back.
func TestAdoptRefusesWhatNoRecordHolds(t *testing.T) {
	store, at := Store{ID: "memstore_1", Epoch: 1}, time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	put := Change{Action: Put, Path: "/a", Digest: Digest{1}, Size: 1, Expect: ExpectAny()}
	made, err := Build(mapView{}, store, Tip{}, &Proposal{Key: NewKey(), Changes: []Change{put}}, at)
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*Commit){
		"a memory that is not UTF-8": func(c *Commit) { c.Versions[0].MemoryID = "mem_\xff" },
		"a time of another zone":     func(c *Commit) { c.Time = c.Time.In(time.FixedZone("", 3600)) },
		"a fraction of a time":       func(c *Commit) { c.Time = c.Time.Add(1) },
		"a year of five digits":      func(c *Commit) { c.Time = c.Time.AddDate(10000, 0, 0) },
	} {
		c := *made
		c.Versions, c.Seals = slices.Clone(c.Versions), slices.Clone(c.Seals)
		change(&c)
		c.Versions[0].Time = c.Time
		c.Digest = chainDigest(&c)
		_, err := Build(mapView{}, store, Tip{}, &Proposal{Key: c.Key, Changes: []Change{changeOf(&c.Versions[0])}, Finished: &c}, at)
		if !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v, want ErrInvalid", name, err)
		}
	}
}

// TestCommitOwnsItsMaps: the maps of a proposal are its caller's, also afterwards.
func TestCommitOwnsItsMaps(t *testing.T) {
	store := Store{ID: "memstore_1", Epoch: 1}
	put := Change{Action: Put, Path: "/a", Digest: Digest{1}, Size: 1, Expect: ExpectAny()}
	for _, p := range []*Proposal{
		{Key: NewKey(), Changes: []Change{put}, Meta: map[string]string{"a": "1"}},
		{Key: NewKey(), Event: &Event{Kind: EventUpdated, Fields: map[string]string{"name": "1"}}, Meta: map[string]string{"a": "1"}},
	} {
		c, err := Build(mapView{}, store, Tip{}, p, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		p.Meta["a"] = "2"
		if p.Event != nil {
			p.Event.Kind, p.Event.Fields["name"] = EventArchived, "2"
		}
		if err := c.Verify(); err != nil {
			t.Errorf("the commit of %+v: %v", p, err)
		}
	}
}

// TestFinishedIsOfItsProposal: a proposal brings no commit in that is another's.
func TestFinishedIsOfItsProposal(t *testing.T) {
	store, at := Store{ID: "memstore_1", Epoch: 1}, time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	put := Change{Action: Put, Path: "/a", Digest: Digest{1}, Size: 1, Expect: ExpectAny()}
	propose := func(p *Proposal) *Commit {
		c, err := Build(mapView{}, store, Tip{}, p, at)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	versions, archived := propose(&Proposal{Key: NewKey(), Changes: []Change{put}}), propose(&Proposal{Key: NewKey(), Event: StoreArchived()})
	view := mapView{"/a": &versions.Versions[0]} // so that the change is the case already
	for name, p := range map[string]*Proposal{
		"of another key":   {Key: NewKey(), Finished: archived, Event: StoreArchived()},
		"an event":         {Key: archived.Key, Finished: archived, Changes: []Change{put}},
		"no event":         {Key: versions.Key, Finished: versions, Event: StoreArchived()},
		"of another event": {Key: archived.Key, Finished: archived, Event: StorePromoted()},
	} {
		if c, err := Build(view, store, Tip{}, p, at); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v, %v; want ErrInvalid", name, c, err)
		}
	}
}

// TestAdoptErasedRefuses: an erased version, and one behind it, is not adopted unless it
// follows from what is known of those before, though all digests are right.
func TestAdoptErasedRefuses(t *testing.T) {
	store := Store{ID: "memstore_1", Epoch: 1}
	put := func(path string, n byte) Change {
		return Change{Action: Put, Path: path, Digest: Digest{n}, Size: 1, Expect: ExpectAny()}
	}
	at := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	r := NewRehearsal(store)
	var commits []*Commit
	for _, changes := range [][]Change{
		{put("/a", 1), put("/b", 1), put("/c/d", 1)}, {put("/a", 2)}, {{Action: Rename, Path: "/a", To: "/e", Expect: ExpectAny()}},
		{{Action: Remove, Path: "/b", Expect: ExpectAny()}},
	} {
		c, err := Build(r, store, r.Tip(), &Proposal{Key: NewKey(), Changes: changes}, at)
		if err == nil {
			err = r.Add(c)
		}
		if err != nil {
			t.Fatal(err)
		}
		commits = append(commits, c)
	}
	first := commits[0]
	made, gone := commits[1].Versions[0].ID, commits[3].Versions[0].ID
	for i, c := range commits {
		commits[i] = c.Erase(made).Erase(gone)
	}
	try := func(i int, change func(*Commit)) error {
		r := NewRehearsal(store)
		for _, c := range commits[:i] {
			if err := r.Add(c); err != nil {
				t.Fatal(err)
			}
		}
		c := *commits[i]
		c.Versions, c.Seals = append([]Version(nil), c.Versions...), append([]Seal(nil), c.Seals...)
		change(&c)
		for i := range c.Versions {
			if v := &c.Versions[i]; !v.Redacted() {
				c.Seals[i].Payload = payloadDigest(c.Format, c.Seals[i].Salt, v)
			}
		}
		c.Digest = chainDigest(&c)
		return r.Add(&c)
	}
	for i := range commits {
		if err := try(i, func(*Commit) {}); err != nil {
			t.Fatal(i, err)
		}
	}
	for name, c := range map[string]struct {
		commit int
		change func(*Commit)
	}{
		"another parent":           {1, func(c *Commit) { c.Versions[0].Parent = first.Versions[1].ID }},
		"another memory":           {1, func(c *Commit) { c.Versions[0].MemoryID = first.Versions[1].MemoryID }},
		"made again":               {1, func(c *Commit) { c.Versions[0].Op = OpCreated }},
		"an unknown operation":     {1, func(c *Commit) { c.Versions[0].Op = "other" }},
		"an id of another place":   {1, func(c *Commit) { c.Versions[0].ID = newVersionID(c.Seq, 1) }},
		"renamed from a head":      {2, func(c *Commit) { c.Versions[0].From = "/b" }},
		"renamed onto a head":      {2, func(c *Commit) { c.Versions[0].Path = "/b" }},
		"renamed below a memory":   {2, func(c *Commit) { c.Versions[0].Path = "/b/x" }},
		"changed below a memory":   {2, func(c *Commit) { v := &c.Versions[0]; v.Op, v.From, v.Path = OpModified, "", "/b/x" }},
		"changed at a directory":   {2, func(c *Commit) { v := &c.Versions[0]; v.Op, v.From, v.Path = OpModified, "", "/c" }},
		"renamed without content":  {2, func(c *Commit) { c.Versions[0].Digest = Digest{} }},
		"parent of before":         {2, func(c *Commit) { c.Versions[0].Parent = first.Versions[0].ID }},
		"deleted, of another kind": {3, func(c *Commit) { c.Versions[0].MemoryID = "mem_a#b" }},
	} {
		if err := try(c.commit, c.change); !errors.Is(err, ErrInvalid) && !errors.Is(err, ErrConflict) && !errors.Is(err, ErrOverlap) {
			t.Errorf("%s: %v, want it refused", name, err)
		}
	}
	for _, named := range []string{made, first.Versions[1].ID} {
		r := NewRehearsal(store)
		for _, c := range commits {
			if err := r.Add(c); err != nil {
				t.Fatal(err)
			}
		}
		c, err := Build(r, store, r.Tip(), &Proposal{Key: NewKey(), Event: StorePromoted()}, at)
		if err != nil {
			t.Fatal(err)
		}
		c.Epoch, c.Event = 1, StoreRedacted(named)
		c.Digest = chainDigest(c)
		if err := r.Add(c); (err == nil) != (named == made) {
			t.Errorf("a redaction of version %s, which is erased: %v: %v", named, named == made, err)
		}
	}
}
