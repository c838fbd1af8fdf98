package plugin

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"mneme/cas"
	"mneme/internal/testing/logfault"
)

// hang is a store that does not obey, until it is let go.
func hang(letGo chan struct{}) func(context.Context) {
	return func(context.Context) { <-letGo }
}

// TestDeadline: a store that blocks costs an answer part of its items, and never more time than
// the deadline: a twentieth less if it obeys.
func TestDeadline(t *testing.T) {
	for name, test := range map[string]struct {
		obeys bool
		took  time.Duration
		given time.Duration // of the caller
	}{
		"obeys": {true, 1900 * time.Millisecond, 0}, "hangs": {false, 2 * time.Second, 0},
		"caller gives less": {false, 500 * time.Millisecond, 500 * time.Millisecond}, "caller gives less and it obeys": {true, 475 * time.Millisecond, 500 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, &rigOptions{stores: []string{"notes", "books:ro"}})
				for i := range 200 {
					r.theirs(fmt.Sprintf("/f%03d", i), "needle")
				}
				letGo := make(chan struct{})
				defer close(letGo)
				if never := hang(letGo); test.obeys {
					r.blobs.set(40, nil)
				} else {
					r.blobs.set(40, never)
				}
				ctx := t.Context()
				if test.given > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, test.given)
					defer cancel()
				}
				began := time.Now()
				got := r.Recall(ctx, Request{QueryText: "needle"})
				d := got.Diagnostics
				if took := time.Since(began); took != test.took || d.TookMS != took.Milliseconds() {
					t.Errorf("it took %v, says %d ms, want %v", took, d.TookMS, test.took)
				}
				c := d.Coverage
				want := fmt.Sprintf("deadline: %d of 200 memories of store notes were searched, the newest first", c.Searched)
				if !d.Degraded || d.Retry != Later || d.Reasons[len(d.Reasons)-1] != want || c.Memories != 200 || c.Searched != 40 {
					t.Errorf("%s, want %s", show(d), want)
				}
				if len(got.Items) != 20 || got.Items[0].Text != "needle" {
					t.Errorf("%s", show(got))
				}
			})
		})
	}
}

// TestSlowMemory: one memory that cannot be read in time takes nothing from the others.
func TestSlowMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		for i := range 10 {
			r.theirs(fmt.Sprintf("/f%d", i), fmt.Sprint("needle ", i))
		}
		slow := cas.Sum([]byte("needle 9")) // the newest, which is read first
		r.blobs.slow.Store(&slow)
		got := r.find("needle")
		if d := got.Diagnostics; len(got.Items) != 9 || !d.Degraded || d.Reasons[0] != "deadline: 9 of 10 memories of store notes were searched, the newest first" || d.Coverage.Damaged != 0 {
			t.Errorf("%s", show(got))
		}
	})
}

// TestDeadlineOfRemember: a commit that blocks is answered in time, and settled later.
func TestDeadlineOfRemember(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		hold := r.log.Hold(logfault.AfterCommit)
		began := time.Now()
		first := r.result(r.Remember(t.Context(), turnOne("t", "1", "text")), Unknown, 0, "deadline: store notes did not answer in time")
		if took := time.Since(began); took != 1900*time.Millisecond {
			t.Errorf("it took %v", took)
		}
		hold.Release()
		second := r.result(r.Remember(t.Context(), turnOne("t", "1", "text")), Already, 0, "")
		if first.Key != second.Key {
			t.Errorf("%+v, %+v", first, second)
		}
		r.commits(1)

		letGo := make(chan struct{})
		r.log.Next(logfault.BeforeCommit, func() { <-letGo })
		began = time.Now()
		r.result(r.Remember(t.Context(), turnOne("t", "2", "text")), Unknown, 0, reasonDeadline)
		if took := time.Since(began); took != 2*time.Second {
			t.Errorf("it took %v", took)
		}
		r.result(r.Remember(t.Context(), turnOne("t", "3", "text")), Refused, 0, reasonBusy)
		close(letGo)
		r.result(r.Remember(t.Context(), turnOne("t", "3", "text")), Written, 1, "")
	})
}

// TestDeadlineOfHealth: a store that does not answer is not well, and the others are.
func TestDeadlineOfHealth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, &rigOptions{stores: []string{"notes", "books:ro"}})
		r.theirs("/f", "x")
		if got := r.Health(t.Context()); !got.OK || show(got.Stores) != `[{"store":"notes","ok":true,"read_only":false,"takes":true,"seq":1,"memories":1},{"store":"books","ok":true,"read_only":true,"takes":false,"seq":0,"memories":0}]` {
			t.Errorf("%s", show(got))
		}
		letGo := make(chan struct{})
		r.log.Next(logfault.BeforeTip, func() { <-letGo })
		began := time.Now()
		got := r.Health(t.Context())
		well := 0
		for _, s := range got.Stores {
			if s.OK {
				well++
			}
		}
		if took := time.Since(began); got.OK || !got.Diagnostics.Degraded || well != 1 || took != 2*time.Second {
			t.Errorf("after %v %s", took, show(got))
		}
		close(letGo)
	})
}

// TestBusy: calls that hang are answered in time, and when there are too many, at once; when
// they have ended, all is well again.
func TestBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		r.theirs("/f", "needle")
		r.found("needle", "/f") // the heads are loaded
		letGo := make(chan struct{})
		r.blobs.set(0, hang(letGo))
		began := time.Now()
		answered := make(chan Recall)
		for range maxCalls {
			go func() { answered <- r.find("needle") }()
		}
		synctest.Wait()
		waited := r.find("needle") // for a slot
		if d := waited.Diagnostics; d.Reasons[0] != reasonBusy || len(d.Reasons) != 1 || time.Since(began) != 2*time.Second {
			t.Errorf("after %v: %s", time.Since(began), show(d))
		}
		for range maxCalls {
			if d := (<-answered).Diagnostics; !strings.HasPrefix(d.Reasons[0], "deadline: ") {
				t.Errorf("%s", show(d))
			}
		}
		if d := r.find("needle").Diagnostics; d.Reasons[0] != reasonBusy || time.Since(began) != 2*time.Second {
			t.Errorf("after %v: %s", time.Since(began), show(d))
		}
		r.blobs.set(-1, nil)
		close(letGo)
		synctest.Wait()
		if len(r.slots) != 0 || r.overdue.Load() != 0 {
			t.Errorf("%d slots are held, %d calls overdue", len(r.slots), r.overdue.Load())
		}
		r.found("needle", "/f")
	})
}

// TestPanic: a panic, wherever it is, is a degraded answer, and the next call is done.
func TestPanic(t *testing.T) {
	r := newRig(t, nil)
	r.theirs("/f", "needle")
	r.blobs.set(0, func(context.Context) { panic("no") })
	if got := r.find("needle"); !got.Diagnostics.Degraded || got.Diagnostics.Reasons[0] != reasonPanic || got.Items == nil {
		t.Errorf("%s", show(got))
	}
	r.blobs.set(-1, nil)
	r.found("needle", "/f")
	r.log.Next(logfault.BeforeTip, func() { panic("no") })
	if got := r.Health(t.Context()); got.OK || !strings.Contains(got.Diagnostics.Reasons[0], reasonPanic) {
		t.Errorf("%s", show(got))
	}
	r.log.Next(logfault.BeforeCommit, func() { panic("no") })
	r.result(r.Remember(t.Context(), turnOne("t", "1", "a")), Unknown, 0, reasonPanic)
	r.result(r.Remember(t.Context(), turnOne("t", "1", "a")), Written, 1, "")
}

// TestCanceled: a caller that does not wait any more is let go.
func TestCanceled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		r.theirs("/f", "needle")
		letGo := make(chan struct{})
		defer close(letGo)
		r.blobs.set(0, hang(letGo))
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		began := time.Now()
		if d := r.Recall(ctx, Request{QueryText: "needle"}).Diagnostics; d.Reasons[0] != reasonCanceled || time.Since(began) != time.Second {
			t.Errorf("after %v: %s", time.Since(began), show(d))
		}
	})
}
