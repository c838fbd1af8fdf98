package session

import (
	"context"
	"errors"
	"fmt"
	"math/rand"
	"runtime"
	"slices"
	"sync"
	"testing"
)

// names are all paths of a small store, the root first.
var names = func() []string {
	paths := []string{""}
	for _, a := range []string{"/a", "/b"} {
		paths = append(paths, a)
		for _, b := range []string{"/c", "/cc"} {
			paths = append(paths, a+b, a+b+"/d", a+b+"/e")
		}
	}
	return paths
}()

// covered is what of names some claims are about, found without the code under test:
// names are in the order of a walk, so what is below one follows it.
func covered(claims []Claim) map[string]bool {
	paths := map[string]bool{}
	for _, c := range claims {
		for _, path := range names {
			if path == c.Path || c.Below && len(path) > len(c.Path) && path[:len(c.Path)+1] == c.Path+"/" {
				paths[path] = true
			}
		}
	}
	return paths
}

func overlap(a, b []Claim) bool {
	paths := covered(b)
	for path := range covered(a) {
		if paths[path] {
			return true
		}
	}
	return false
}

func randomClaims(r *rand.Rand) []Claim {
	claims := make([]Claim, 1+r.Intn(3))
	for i := range claims {
		claims[i] = Claim{Path: names[r.Intn(len(names))]}
		claims[i].Below = claims[i].Path == "" || r.Intn(3) == 0
	}
	return claims
}

// TestClaimsModel asks, releases and withdraws at random, and wants claims granted
// exactly where the model grants them: if they overlap none that was asked for before
// and is still held or waited for.
func TestClaimsModel(t *testing.T) {
	type asked struct {
		claims []Claim
		w      *claimant // nil: granted at once
	}
	granted := func(a *asked) bool {
		if a.w == nil {
			return true
		}
		select {
		case <-a.w.granted:
			return true
		default:
			return false
		}
	}
	for seed := range int64(300) {
		r := rand.New(rand.NewSource(seed))
		var c Claims
		var all []*asked // those not given back, in the order of their asking
		for range 60 {
			if len(all) == 0 || r.Intn(2) == 0 {
				claims := randomClaims(r)
				all = append(all, &asked{claims, c.ask(claims)})
			} else {
				i := r.Intn(len(all))
				a := all[i]
				all = slices.Delete(all, i, i+1)
				switch {
				case a.w == nil || granted(a) && r.Intn(2) == 0:
					c.release(a.claims)
				default: // its context has ended, be it before or after it was granted
					c.withdraw(a.w)
				}
			}
			for i, a := range all {
				free := true
				for _, earlier := range all[:i] {
					free = free && !overlap(a.claims, earlier.claims)
				}
				if granted(a) != free {
					t.Fatalf("seed %d: %v after %v: granted %v, want %v", seed, a.claims, all[:i], granted(a), free)
				}
			}
		}
		for _, a := range all {
			if a.w == nil || granted(a) {
				c.release(a.claims)
			} else {
				c.withdraw(a.w)
			}
		}
		if !c.Idle() {
			t.Fatalf("seed %d: not idle at the end", seed)
		}
	}
}

// TestClaimsExclude takes claims from many goroutines. No two that overlap are held at
// once.
func TestClaimsExclude(t *testing.T) {
	var c Claims
	var mu sync.Mutex
	held := map[int][]Claim{}
	var work sync.WaitGroup
	for worker := range 8 {
		work.Go(func() {
			r := rand.New(rand.NewSource(int64(worker)))
			for range 300 {
				claims := randomClaims(r)
				ctx, cancel := context.WithCancel(t.Context())
				if r.Intn(4) == 0 {
					go cancel()
				}
				release, err := c.Take(ctx, func() []Claim { return slices.Clone(claims) })
				if err == nil {
					mu.Lock()
					for other, theirs := range held {
						if overlap(claims, theirs) {
							t.Errorf("%v of %d while %v of %d", claims, worker, theirs, other)
						}
					}
					held[worker] = claims
					mu.Unlock()
					mu.Lock()
					delete(held, worker)
					mu.Unlock()
					release()
				} else if !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
				cancel()
			}
		})
	}
	work.Wait()
	if !c.Idle() {
		t.Error("not idle at the end")
	}
}

// fixed returns claims that do not change.
func fixed(claims ...Claim) func() []Claim {
	return func() []Claim { return slices.Clone(claims) }
}

// TestClaimsFair has the rename of a directory wait for a commit below it. Commits that
// come later wait for the rename, unless they are of other paths.
func TestClaimsFair(t *testing.T) {
	var c Claims
	release, err := c.Take(t.Context(), fixed(Claim{Path: "/a/f"}))
	if err != nil {
		t.Fatal(err)
	}
	rename := c.ask([]Claim{{Path: "/a", Below: true}, {Path: "/b", Below: true}})
	later := c.ask([]Claim{{Path: "/a/g"}})
	if rename == nil || later == nil {
		t.Fatal("granted beside the commit, or before the rename that came first")
	}
	elsewhere, err := c.Take(t.Context(), fixed(Claim{Path: "/ab"}))
	if err != nil {
		t.Fatal(err)
	}
	release()
	<-rename.granted
	select {
	case <-later.granted:
		t.Fatal("granted beside the rename")
	default:
	}
	c.release(rename.claims)
	<-later.granted
	c.release(later.claims)
	elsewhere()
	if !c.Idle() {
		t.Error("not idle at the end")
	}
}

// TestClaimsFollowWhatMoves has a path move while its claim is waited for: the claim
// that is held in the end is that of the new path, and of nothing else.
func TestClaimsFollowWhatMoves(t *testing.T) {
	var c Claims
	rename, err := c.Take(t.Context(), fixed(Claim{Path: "/old"}, Claim{Path: "/new"}))
	if err != nil {
		t.Fatal(err)
	}
	asked := make(chan struct{}, 3)
	var mu sync.Mutex
	path := "/old"
	type taken struct {
		release func()
		err     error
	}
	done := make(chan taken)
	go func() {
		release, err := c.Take(t.Context(), func() []Claim {
			mu.Lock()
			defer mu.Unlock()
			asked <- struct{}{}
			return []Claim{{Path: path}}
		})
		done <- taken{release, err}
	}()
	<-asked
	mu.Lock()
	path = "/new"
	mu.Unlock()
	rename()
	got := <-done
	if got.err != nil {
		t.Fatal(got.err)
	}
	for path, free := range map[string]bool{"/old": true, "/new": false} {
		if w := c.ask([]Claim{{Path: path}}); (w == nil) != free {
			t.Errorf("%s is free: %v, want %v", path, w == nil, free)
		} else if w == nil {
			c.release([]Claim{{Path: path}})
		} else {
			c.withdraw(w)
		}
	}
	got.release()
	if !c.Idle() {
		t.Error("not idle at the end")
	}
}

// TestClaimsCancel ends the context of a rename that waits. A claim that waited for the rename
// alone continues.
func TestClaimsCancel(t *testing.T) {
	var c Claims
	release, err := c.Take(t.Context(), fixed(Claim{Path: "/a/f"}))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		_, err := c.Take(ctx, fixed(Claim{Path: "/a", Below: true}))
		ended <- err
	}()
	waits := func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return len(c.queue) == 1
	}
	for !waits() {
		runtime.Gosched()
	}
	behind := c.ask([]Claim{{Path: "/a/g"}})
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("Take after cancel: %v", err)
	}
	<-behind.granted
	c.release(behind.claims)
	free, err := c.Take(ctx, fixed(Claim{Path: "/b"}))
	if err != nil {
		t.Fatalf("a free path with an ended context: %v", err)
	}
	free()
	release()
	if !c.Idle() {
		t.Error("not idle at the end")
	}
}

// TestClaimsSpelling takes one directory in the spellings that a path may have.
func TestClaimsSpelling(t *testing.T) {
	for _, pair := range [][2]Claim{
		{{Path: "/a/", Below: true}, {Path: "/a"}},
		{{Path: "/", Below: true}, {Path: "/a"}},
		{{Path: "", Below: true}, {Path: "/", Below: true}},
	} {
		var c Claims
		release, err := c.Take(t.Context(), fixed(pair[0]))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := c.Take(ctx, fixed(pair[1])); err == nil {
			t.Errorf("%v while %v is held", pair[1], pair[0])
		}
		release()
	}
}

func TestTurn(t *testing.T) {
	var turn Turn
	held, most := 0, 0
	var mu sync.Mutex
	var work sync.WaitGroup
	for range 8 {
		work.Go(func() {
			for range 100 {
				release, err := turn.Take(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				held++
				most = max(most, held)
				mu.Unlock()
				mu.Lock()
				held--
				mu.Unlock()
				release()
			}
		})
	}
	work.Wait()
	if most != 1 {
		t.Errorf("%d had the turn at once", most)
	}
	release, err := turn.Take(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := turn.Take(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("with an ended context: %v", err)
	}
	release()
	if release, err = turn.Take(ctx); err != nil {
		t.Fatalf("a free turn with an ended context: %v", err)
	}
	release()
}

// TestClaimsAllocateNothing takes claims and a turn for which no other caller waits.
func TestClaimsAllocateNothing(t *testing.T) {
	var c Claims
	c.ask([]Claim{{Path: "/dir", Below: true}, {Path: "/dir/other"}})
	var turn Turn
	wanted := []Claim{{Path: "/file"}}
	if n := testing.AllocsPerRun(100, func() {
		release, err := c.Take(t.Context(), func() []Claim { return wanted })
		if err != nil {
			t.Fatal(err)
		}
		release()
	}); n != 0 {
		t.Errorf("free claims take %v allocations, want none", n)
	}
	if n := testing.AllocsPerRun(100, func() {
		release, err := turn.Take(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		release()
	}); n != 0 {
		t.Errorf("a free turn takes %v allocations, want none", n)
	}
}

func BenchmarkClaims(b *testing.B) {
	for _, others := range []int{0, 16, 1000} {
		b.Run(fmt.Sprint(others, " held"), func(b *testing.B) {
			var c Claims
			for i := range others {
				c.ask([]Claim{{Path: fmt.Sprintf("/dir/%d", i)}})
			}
			b.ReportAllocs()
			for b.Loop() {
				release, err := c.Take(b.Context(), func() []Claim { return []Claim{{Path: "/dir/file"}} })
				if err != nil {
					b.Fatal(err)
				}
				release()
			}
		})
	}
}
