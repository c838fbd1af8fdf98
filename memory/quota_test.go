package memory

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"mneme/cas"
	"mneme/cas/memcas"
	"mneme/versionlog"
	"mneme/versionlog/memlog"
)

// TestQuota: what one open store adds counts against its author's quota, and frees it
// again where it is of the last hour only, or deletes; others are not concerned.
func TestQuota(t *testing.T) {
	blobs := memcas.New()
	lib := NewLibrary(memlog.New(nil), func(string) (cas.Store, error) { return blobs, nil })
	info, err := lib.CreateStore(t.Context(), "notes", nil)
	if err != nil {
		t.Fatal(err)
	}
	open := func(quota versionlog.Quota) *Store {
		s, err := lib.Open(t.Context(), info.ID, &Author{Actor: versionlog.Actor{Kind: versionlog.ActorSession, ID: "s"}, Session: "s", Quota: quota})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	write := func(s *Store, path, text string) error {
		_, err := s.Write(t.Context(), path, []byte(text), versionlog.ExpectAny())
		return err
	}
	for name, quota := range map[string]versionlog.Quota{"bytes": {Bytes: 30}, "memories": {Memories: 3}, "versions": {PerHour: 3}} {
		t.Run(name, func(t *testing.T) {
			s := open(quota)
			for i := range 3 {
				if err := write(s, fmt.Sprintf("/%s/%d", name, i), "ten bytes!"); err != nil {
					t.Fatal(err)
				}
			}
			if err := write(s, "/"+name+"/more", "ten bytes?"); !errors.Is(err, versionlog.ErrQuota) {
				t.Errorf("beyond the quota: %v, want %v", err, versionlog.ErrQuota)
			}
			if err := write(open(quota), "/"+name+"/others", "ten bytes."); err != nil {
				t.Errorf("another author: %v", err)
			}
			if _, err := s.Remove(t.Context(), "/"+name+"/0", versionlog.ExpectAny()); err != nil {
				t.Errorf("a deletion beyond the quota: %v", err)
			}
			want := name != "memories"
			if err := write(s, "/"+name+"/after", "eleven bytes"); errors.Is(err, versionlog.ErrQuota) != want {
				t.Errorf("after a deletion: %v, want it refused: %v", err, want)
			}
		})
	}
}

// TestStoreQuotaKeepsNothing: contents that a store's own quota refuses are not stored,
// though the quota is set while the store is open.
func TestStoreQuotaKeepsNothing(t *testing.T) {
	for name, early := range map[string]bool{"set before": true, "set while open": false} {
		t.Run(name, func(t *testing.T) {
			blobs := memcas.New()
			lib := NewLibrary(memlog.New(nil), func(string) (cas.Store, error) { return blobs, nil })
			opts, ten := &StoreOptions{}, int64(10)
			if early {
				opts.Quota.Bytes = 10
			}
			info, err := lib.CreateStore(t.Context(), "notes", opts)
			if err != nil {
				t.Fatal(err)
			}
			s, err := lib.Open(t.Context(), info.ID, &Author{Actor: versionlog.Actor{Kind: versionlog.ActorUser, ID: "u"}})
			if err != nil {
				t.Fatal(err)
			}
			if !early {
				if _, err := lib.UpdateStore(t.Context(), info.ID, versionlog.StoreUpdate{QuotaBytes: &ten}, versionlog.Actor{}); err != nil {
					t.Fatal(err)
				}
				if _, err := s.Write(t.Context(), "/first", []byte("more than ten"), versionlog.ExpectAny()); !errors.Is(err, versionlog.ErrQuota) {
					t.Fatalf("the first beyond it: %v, want %v", err, versionlog.ErrQuota)
				}
			}
			for i := range 3 {
				data := fmt.Appendf(nil, "more than ten, %d", i)
				if _, err := s.Write(t.Context(), "/more", data, versionlog.ExpectAny()); !errors.Is(err, versionlog.ErrQuota) {
					t.Errorf("beyond it: %v, want %v", err, versionlog.ErrQuota)
				}
				if _, err := blobs.Get(t.Context(), cas.Sum(data)); !errors.Is(err, cas.ErrNotFound) {
					t.Errorf("what was refused is stored: %v", err)
				}
			}
		})
	}
}

// TestRepeatAtTheQuota: a commit that is made, and repeated since its reply was lost, is
// not refused for its own use of the quota; if the log cannot be asked, the error does not
// say that the commit is untried.
func TestRepeatAtTheQuota(t *testing.T) {
	blobs := memcas.New()
	lib := NewLibrary(memlog.New(nil), func(string) (cas.Store, error) { return blobs, nil })
	info, err := lib.CreateStore(t.Context(), "notes", &StoreOptions{Quota: versionlog.Quota{Bytes: 15}})
	if err != nil {
		t.Fatal(err)
	}
	full := errors.New("the disk is full")
	author := &Author{Actor: versionlog.Actor{Kind: versionlog.ActorUser, ID: "u"}}
	s, err := lib.Open(t.Context(), info.ID, author)
	if err != nil {
		t.Fatal(err)
	}
	changes := []Change{{Action: versionlog.Put, Path: "/a", Content: []byte("ten bytes!"), Expect: versionlog.ExpectAbsent()}}
	key := versionlog.NewKey()
	made, err := s.Batch(t.Context(), changes, &CommitOptions{Key: key, Fresh: true})
	if err != nil {
		t.Fatal(err)
	}
	again, err := s.Batch(t.Context(), changes, &CommitOptions{Key: key})
	if err != nil || again.Digest != made.Digest {
		t.Errorf("repeated: %+v, %v", again, err)
	}
	s.mayGrow = func() error { return full }
	changes[0].Path, changes[0].Content = "/b", []byte("x")
	for _, fresh := range []bool{true, false} {
		_, err := s.Batch(t.Context(), changes, &CommitOptions{Key: key, Fresh: fresh})
		if !errors.Is(err, full) || errors.Is(err, ErrUntried) != fresh {
			t.Errorf("on a full disk, for the first time %v: %v", fresh, err)
		}
	}
}

// TestTally: versions count for an hour.
func TestTally(t *testing.T) {
	var tally tally
	at := 30 * time.Second
	versions := []versionlog.Version{{Op: versionlog.OpCreated, Size: 7}, {Op: versionlog.OpRenamed, Size: 5}, {Op: versionlog.OpDeleted}}
	tally.add(versions, at)
	tally.add(versions, at+30*time.Minute)
	for after, want := range map[time.Duration]int64{30 * time.Minute: 6, 59 * time.Minute: 6, 61 * time.Minute: 3, 2 * time.Hour: 0} {
		got := tally.usage(at + after)
		if got != (versionlog.Usage{Bytes: 14, LastHour: want}) {
			t.Errorf("after %v: %+v, want 14 bytes and %d versions in the last hour", after, got, want)
		}
	}
	tally.add(versions, at+61*time.Minute) // takes the place of the first
	if got := tally.usage(at + 61*time.Minute); got.LastHour != 6 {
		t.Errorf("%d versions in the last hour, want 6", got.LastHour)
	}
}
