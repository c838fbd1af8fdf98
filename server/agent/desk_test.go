package agent

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"mneme/cas"
	"mneme/cas/memcas"
	"mneme/errkind"
	"mneme/memory"
	"mneme/server/access"
	"mneme/versionlog"
	"mneme/versionlog/memlog"
)

// rig is desks over a library in memory, with some stores.
type rig struct {
	*testing.T
	*Handler
	lib    *memory.Library
	stores []versionlog.Store
	now    time.Time
}

func newRig(t *testing.T, stores int) *rig {
	blobs := memcas.New()
	r := &rig{T: t, lib: memory.NewLibrary(memlog.New(nil), func(string) (cas.Store, error) { return blobs, nil }), now: time.Unix(1e9, 0)}
	for i := range stores {
		s, err := r.lib.CreateStore(t.Context(), fmt.Sprintf("s%03d", i), nil)
		if err != nil {
			t.Fatal(err)
		}
		r.stores = append(r.stores, s)
	}
	r.Handler = New(nil, &Options{Now: func() time.Time { return r.now }})
	t.Cleanup(r.Close)
	return r
}

// caller is one with a token, which may write to the first of the stores.
func (r *rig) caller(token string, stores int) *access.Caller {
	c := &access.Caller{Library: r.lib, Actor: versionlog.Actor{Kind: versionlog.ActorAPIKey, ID: "key"}, Token: token, Key: &access.Key{}, Grants: map[string]access.Right{}}
	for _, s := range r.stores[:stores] {
		c.Grants[s.ID] = access.Write
	}
	return c
}

// sits enters for a request, or fails the test.
func (r *rig) sits(c *access.Caller, refs ...string) (d *desk, leave func()) {
	r.Helper()
	d, leave, err := r.desks.enter(r.Context(), c, refs)
	if err != nil {
		r.Fatal(err)
	}
	return d, leave
}

// TestDesks: a credential comes back to its desk until it was away for long, or may do something
// else, or what it sees is another.
func TestDesks(t *testing.T) {
	r := newRig(t, 2)
	first, leave := r.sits(r.caller("a", 1))
	leave()
	again, leave := r.sits(r.caller("a", 1), "s000", r.stores[0].ID)
	leave()
	if again != first {
		t.Error("the same stores by name are another desk")
	}
	reads := r.caller("a", 1)
	reads.Grants[r.stores[0].ID] = access.Read
	for name, c := range map[string]*access.Caller{"another token": r.caller("b", 1), "one store more": r.caller("a", 2), "another right": reads} {
		d, leave := r.sits(c)
		leave()
		if d == first {
			t.Errorf("%s is the same desk", name)
		}
	}
	text := "what it is for"
	if _, err := r.lib.UpdateStore(t.Context(), r.stores[0].ID, versionlog.StoreUpdate{Description: &text}, versionlog.Actor{Kind: versionlog.ActorUser, ID: "root"}); err != nil {
		t.Fatal(err)
	}
	described, leave := r.sits(r.caller("a", 1))
	if described == first || described.memory.Stores()[0].Description != text {
		t.Error("the description is that of before")
	}
	r.now = r.now.Add(idleFor + time.Minute)
	still, leaveStill := r.sits(r.caller("a", 1))
	if still != described || len(r.desks.byName) != 1 {
		t.Errorf("after a while there are %d desks", len(r.desks.byName))
	}
	leave()
	leaveStill()
	r.Close()
	if len(r.desks.byName) != 0 {
		t.Errorf("at the end there are %d desks", len(r.desks.byName))
	}
}

// TestDesksAreBounded: those of one credential, and all together; a desk with requests
// stays.
func TestDesksAreBounded(t *testing.T) {
	r := newRig(t, maxOfCaller+2)
	c := r.caller("a", maxOfCaller+2)
	busy, leaveBusy := r.sits(c, "s000")
	for i := range maxOfCaller + 1 {
		r.now = r.now.Add(time.Second)
		_, leave := r.sits(c, r.stores[i+1].Slug)
		leave()
	}
	if n := len(r.desks.byName); n != maxOfCaller {
		t.Errorf("one credential has %d desks", n)
	}
	if d, leave := r.sits(c, "s000"); d != busy {
		t.Error("a desk was cleared at which somebody was")
	} else {
		leave()
	}
	leaveBusy()
	var leaves []func()
	for i := range maxOfCaller {
		_, leave := r.sits(c, r.stores[i].Slug)
		leaves = append(leaves, leave)
	}
	if _, _, err := r.desks.enter(t.Context(), c, []string{r.stores[maxOfCaller].Slug}); !errkind.Of(err).Retryable() {
		t.Errorf("one more: %v", err)
	}
	for _, leave := range leaves {
		leave()
	}
	r.desks.most = 80
	for i := range 2 * r.desks.most {
		c := r.caller(fmt.Sprint(i), 1)
		c.Actor.ID = fmt.Sprint(i)
		_, leave := r.sits(c)
		leave()
	}
	if n := len(r.desks.byName); n != r.desks.most {
		t.Errorf("there are %d desks", n)
	}
}

// TestDesksOfOneKey: the tokens of one key do not keep those of another one from their desks.
func TestDesksOfOneKey(t *testing.T) {
	r := newRig(t, 1)
	r.desks.most = 4 * maxOfCaller
	for i := range r.desks.most/4 + 1 {
		_, leave, err := r.desks.enter(t.Context(), r.caller(fmt.Sprint(i), 1), nil)
		if (err != nil) != (i == r.desks.most/4) {
			t.Errorf("desk %d of the key: %v", i, err)
		}
		if err == nil {
			defer leave()
		}
	}
	other := r.caller("a", 1)
	other.Actor.ID = "other"
	_, leave := r.sits(other)
	leave()
}

// TestDesksAtOnce has more callers than desks come and go; each has its own stores before it.
func TestDesksAtOnce(t *testing.T) {
	r := newRig(t, 4)
	r.desks.most = 4
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			for n := range 12 {
				slug := r.stores[(i+n)%4].Slug
				d, leave, err := r.desks.enter(t.Context(), r.caller(fmt.Sprint(n%3), 4), []string{slug})
				switch {
				case errors.Is(err, errNoDesk):
					continue
				case err != nil:
					t.Error(err)
					return
				}
				input := fmt.Sprintf(`{"command":"create","path":"/memories/%d-%d.md","file_text":%q}`, i, n, slug)
				if got := d.memory.Call(t.Context(), []byte(input)); got.Error != nil {
					t.Error(got.Text)
				}
				if stores := d.memory.Stores(); len(stores) != 1 || stores[0].Slug != slug {
					t.Errorf("the stores are %v, want %s", stores, slug)
				}
				leave()
			}
		})
	}
	all.Wait()
	if n := len(r.desks.byName); n > r.desks.most {
		t.Errorf("there are %d desks", n)
	}
}

// TestStoresAreBounded: a credential that reaches very many has to name those that are meant.
func TestStoresAreBounded(t *testing.T) {
	r := newRig(t, maxStores+1)
	all := r.caller("", 0)
	all.Everywhere = access.Write
	for name, c := range map[string]*access.Caller{"granted": r.caller("a", maxStores+1), "everywhere": all} {
		if _, _, err := r.desks.enter(t.Context(), c, nil); errkind.Of(err) != errkind.Invalid {
			t.Errorf("%s: %v", name, err)
		}
		_, leave := r.sits(c, "s007")
		leave()
	}
	named, err := r.lib.CreateStore(t.Context(), "The Plan", nil)
	if err != nil {
		t.Fatal(err)
	}
	d, leave := r.sits(all, "The Plan", named.Slug, named.ID)
	leave()
	if stores := d.memory.Stores(); len(stores) != 1 || stores[0].ID != named.ID {
		t.Errorf("by name, slug and id it is %v", stores)
	}
	if err := r.lib.DeleteStore(t.Context(), r.stores[1].ID); err != nil {
		t.Fatal(err)
	}
	d, leave = r.sits(r.caller("a", 3))
	leave()
	if n := len(d.memory.Stores()); n != 2 {
		t.Errorf("without the one that was deleted there are %d", n)
	}
}

// TestSearchesOfKey: a key and its tokens together search so much at once as one desk may, and wait
// for each other, not for other keys.
func TestSearchesOfKey(t *testing.T) {
	r := newRig(t, 1)
	other := r.caller("a", 1)
	other.Actor.ID = "other"
	of := func(c *access.Caller) chan struct{} {
		d, leave := r.sits(c)
		defer leave()
		return d.search
	}
	one := of(r.caller("a", 1))
	if one != of(r.caller("b", 1)) || one != of(r.caller("", 1)) || one == of(other) {
		t.Error("searches are counted otherwise")
	}
	r.now = r.now.Add(2 * idleFor)
	of(other)
	if n := len(r.desks.search); n != 1 {
		t.Errorf("searches of %d keys are counted, of one there is a desk", n)
	}
}
