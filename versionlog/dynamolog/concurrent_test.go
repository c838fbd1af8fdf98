package dynamolog

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"mneme/internal/testing/awstest"
	"mneme/internal/testing/fault"
	"mneme/versionlog"
	"mneme/versionlog/memlog"
)

// TestDeletedByTwo: two processes delete a store at once while others commit to
// it. Nothing of it is left, and commits end with ErrNotFound.
func TestDeletedByTwo(t *testing.T) {
	t.Parallel()
	b := newBackend(t, awstest.DynamoDB(t))
	logs := []*Log{b.open(t, nil, nil), b.open(t, nil, nil), b.open(t, nil, nil)}
	s := addStore(t, logs[0], "notes")
	for i := range 30 {
		write(t, logs[0], s.ID, fmt.Sprintf("/%d", i), "1")
	}
	ctx := t.Context()
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for i := 0; ; i++ {
				_, err := logs[w%3].Commit(ctx, s.ID, proposal(putChange(fmt.Sprintf("/w%d", w), fmt.Sprint(i), versionlog.ExpectAny())))
				if errors.Is(err, versionlog.ErrNotFound) {
					return
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for _, l := range logs[:2] {
		wg.Go(func() {
			if err := l.DeleteStore(ctx, s.ID); err != nil && !errors.Is(err, versionlog.ErrNotFound) {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if stores, err := versionlog.AllStores(ctx, logs[2]); err != nil || len(stores) != 0 {
		t.Errorf("stores: %v, %v", stores, err)
	}
	if _, err := logs[2].StoreNamed(ctx, "notes"); !errors.Is(err, versionlog.ErrNotFound) {
		t.Errorf("the error is %v", err)
	}
	again := addStore(t, logs[1], "notes")
	write(t, logs[2], again.ID, "/a", "1")
}

// TestSettled makes the reply to a transaction be lost, and be followed by what
// DynamoDB answers when it is busy.
func TestSettled(t *testing.T) {
	t.Parallel()
	for name, faults := range map[string][]fault.Fault{
		"reply lost":            {{Action: fault.FailAfter, Times: 1}},
		"reply lost often":      {{Action: fault.FailAfter, Times: 3}},
		"never sent":            {{Action: fault.FailBefore, Times: 3}},
		"conflict":              {{Action: fault.TransactionConflict, Times: 3}},
		"throttled":             {{Action: fault.Answer(http.StatusBadRequest, "ProvisionedThroughputExceededException"), Times: 3}},
		"in trouble":            {{Action: fault.Answer(http.StatusInternalServerError, "InternalServerError"), Times: 2}},
		"lost, then in trouble": {{Action: fault.FailAfter, Times: 1}, {Action: fault.Answer(http.StatusInternalServerError, "InternalServerError"), Times: 2}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBackend(t, awstest.DynamoDB(t))
			transport := newSites()
			l, err := b.openOnce(t, transport)
			if err != nil {
				t.Fatal(err)
			}
			defer closeOnce(t, l)
			s := addStore(t, l, "notes")
			first := write(t, l, s.ID, "/a", "1").Versions[0]
			for _, f := range faults {
				f.Site = "TransactWriteItems LOG"
				transport.Arm(f)
			}
			transport.Reset()
			c, err := l.Commit(t.Context(), s.ID, proposal(putChange("/a", "2", versionlog.ExpectVersion(first.ID))))
			if err != nil || c.Seq != 2 {
				t.Fatalf("%+v, %v", c, err)
			}
			transport.Disarm()
			if sent := transport.Calls()["TransactWriteItems LOG"]; faults[0].Times == 1 && sent != 1 {
				t.Errorf("a commit whose reply was lost was sent %d times", sent)
			}
			if tip, err := l.Tip(t.Context(), s.ID); err != nil || tip.Digest != c.Digest {
				t.Errorf("tip is %+v, %v, want that of %+v", tip, err, c)
			}
		})
	}
}

// TestBoundedAndCalm: when the table is out of reach, a commit ends within its
// time with the cause, obeys its context, and goes on by itself afterwards.
func TestBoundedAndCalm(t *testing.T) {
	t.Parallel()
	b := newBackend(t, awstest.DynamoDB(t))
	transport := newTransport()
	l := b.open(t, transport, nil)
	s := addStore(t, l, "notes")
	write(t, l, s.ID, "/a", "1")
	transport.Arm(fault.Fault{Site: "dynamodb *", Action: fault.FailBefore})
	change := func(content string) *versionlog.Proposal {
		return proposal(putChange("/a", content, versionlog.ExpectAny()))
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := l.Commit(ctx, s.ID, change("2")); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the error is %v, want the context's", err)
	}
	start := time.Now()
	_, err := l.Commit(t.Context(), s.ID, change("3"))
	if took := time.Since(start); err == nil || isVerdict(err) || took > 30*time.Second {
		t.Errorf("after %v the error is %v", took, err)
	}
	if err != nil && !strings.Contains(err.Error(), "cannot be reached") {
		t.Errorf("the error does not tell the cause: %v", err)
	}
	transport.Disarm()
	write(t, l, s.ID, "/a", "4")
}

// TestFits: of commits that were made elsewhere it is told, with no request, which Import takes.
func TestFits(t *testing.T) {
	t.Parallel()
	b := newBackend(t, awstest.DynamoDB(t))
	l := b.open(t, nil, nil)
	from := memlog.New(nil)
	n := 0
	try := func(p *versionlog.Proposal, before []versionlog.Change, want error) {
		t.Helper()
		n++
		s := versionlog.Store{ID: versionlog.NewStoreID(), Slug: fmt.Sprint("fits", n)}
		for _, log := range []versionlog.Log{from, l} {
			if err := log.CreateStore(t.Context(), s); err != nil {
				t.Fatal(err)
			}
		}
		for len(before) > 0 {
			some := min(len(before), 90)
			if _, err := from.Commit(t.Context(), s.ID, proposal(before[:some]...)); err != nil {
				t.Fatal(err)
			}
			before = before[some:]
		}
		c, err := from.Commit(t.Context(), s.ID, p)
		if err != nil {
			t.Fatal(err)
		}
		if err := versionlog.CheckImport(l, c); !errors.Is(err, want) {
			t.Errorf("%d: %v; want %v", n, err, want)
		}
		if err := versionlog.Import(t.Context(), l, s.ID, from.Commits(t.Context(), s.ID, 0)); !errors.Is(err, want) {
			t.Errorf("%d: imported: %v; want %v", n, err, want)
		}
	}
	puts := func(n int) (changes []versionlog.Change) {
		for i := range n {
			changes = append(changes, putChange(fmt.Sprintf("/%d", i), "1", versionlog.ExpectAny()))
		}
		return changes
	}
	each := func(n int, action versionlog.Action) (changes []versionlog.Change) {
		for i := range n {
			c := versionlog.Change{Action: action, Path: fmt.Sprintf("/%d", i), Expect: versionlog.ExpectAny()}
			if action == versionlog.Rename {
				c.To = c.Path + "-to"
			}
			changes = append(changes, c)
		}
		return changes
	}
	saying := func(bytes int) *versionlog.Proposal {
		p := proposal(puts(1)...)
		p.Message = strings.Repeat("m", bytes)
		return p
	}
	try(proposal(puts(commitRows)...), nil, nil)
	try(proposal(puts(commitRows+1)...), nil, versionlog.ErrTooLarge)
	try(proposal(each(commitRows/2, versionlog.Remove)...), puts(commitRows/2), nil)
	try(proposal(each(commitRows/2+1, versionlog.Remove)...), puts(commitRows/2+1), versionlog.ErrTooLarge)
	try(proposal(each(commitRows/3+1, versionlog.Rename)...), puts(commitRows/3+1), versionlog.ErrTooLarge)
	try(saying(300_000), nil, nil)
	try(saying(500_000), nil, versionlog.ErrTooLarge)
	try(proposal(putChange("/"+strings.Repeat("p", maxPath), "1", versionlog.ExpectAny())), nil, versionlog.ErrInvalid)
}

// TestTooLarge: what does not fit one transaction is refused before it is tried.
func TestTooLarge(t *testing.T) {
	t.Parallel()
	b := newBackend(t, awstest.DynamoDB(t))
	l := b.open(t, nil, nil)
	s := addStore(t, l, "notes")
	puts := func(n int) (changes []versionlog.Change) {
		for i := range n {
			changes = append(changes, putChange(fmt.Sprintf("/%d", i), "1", versionlog.ExpectAny()))
		}
		return changes
	}
	if _, err := l.Commit(t.Context(), s.ID, proposal(puts(98)...)); !errors.Is(err, versionlog.ErrTooLarge) {
		t.Errorf("98 files: %v", err)
	}
	if _, err := l.Commit(t.Context(), s.ID, proposal(puts(97)...)); err != nil {
		t.Errorf("97 files: %v", err)
	}
	large := proposal(putChange("/large", "1", versionlog.ExpectAny()))
	large.Message = strings.Repeat("m", 500_000)
	if _, err := l.Commit(t.Context(), s.ID, large); !errors.Is(err, versionlog.ErrTooLarge) {
		t.Errorf("a message of 500 KB: %v", err)
	}
	large.Message = strings.Repeat("m", 300_000)
	if _, err := l.Commit(t.Context(), s.ID, large); err != nil {
		t.Errorf("a message of 300 KB: %v", err)
	}
	if _, err := l.Commit(t.Context(), s.ID, proposal(putChange("/"+strings.Repeat("p", 1024), "1", versionlog.ExpectAny()))); !errors.Is(err, versionlog.ErrInvalid) {
		t.Errorf("a path of 1,025 bytes: %v", err)
	}
	longest := "/" + strings.Repeat("p", 1023)
	write(t, l, s.ID, longest, "1")
	if v, err := l.Head(t.Context(), s.ID, longest); err != nil || v.Path != longest {
		t.Errorf("a path of 1,024 bytes: %v", err)
	}
	if got := headsOf(t, b.open(t, nil, nil), s.ID); len(got) != 99 {
		t.Errorf("%d heads", len(got))
	}
}

// BenchmarkVisible is how long a commit takes to arrive at another process, p99
// of 500, with the default refresh interval of one second divided by ten.
func BenchmarkVisible(b *testing.B) {
	const refresh = 100 * time.Millisecond
	backend := newBackend(b, awstest.DynamoDB(b))
	writer := backend.open(b, nil, nil)
	reader := backend.open(b, nil, &Options{Refresh: refresh})
	s := addStore(b, writer, "notes")
	var took []time.Duration
	for range 500 {
		committed := make(chan time.Time, 1)
		after := uint64(len(took))
		go func() {
			time.Sleep(time.Duration(after%10) * refresh / 10) // at any time of the interval
			write(b, writer, s.ID, "/a", fmt.Sprint(after))
			committed <- time.Now()
		}()
		if _, err := reader.Next(b.Context(), s.ID, after); err != nil {
			b.Fatal(err)
		}
		seen := time.Now()
		took = append(took, seen.Sub(<-committed))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)*99/100].Milliseconds()), "ms-p99")
	b.ReportMetric(float64(refresh.Milliseconds()), "ms-refresh")
}

// TestJudgedAtOneMoment: a proposal that is refused, or changes nothing, is told
// so of one state of the store. Here another call of the same log learns, while
// the first catches up, what another process has just committed.
func TestJudgedAtOneMoment(t *testing.T) {
	t.Parallel()
	b := newBackend(t, awstest.DynamoDB(t))
	transport := newSites()
	l := b.open(t, transport, nil)
	l.bounds = bounds{ring: 8}
	s := addStore(t, l, "notes")
	write(t, l, s.ID, "/a", "1")
	other := b.open(t, nil, nil)

	type reply struct {
		c   *versionlog.Commit
		err error
	}
	held, release := make(chan bool), make(chan bool)
	hold := func() {
		held <- true
		<-release
	}
	commit := func(content string, expect versionlog.Expectation) chan reply {
		done := make(chan reply, 1)
		go func() {
			c, err := l.Commit(t.Context(), s.ID, proposal(putChange("/a", content, expect)))
			done <- reply{c, err}
		}()
		<-held
		return done
	}
	transport.Arm(fault.Fault{Site: "GetItem META", Times: 1, Action: func(_ *http.Request, _ []byte, send func() (*http.Response, error)) (*http.Response, error) {
		r, err := send()
		hold()
		return r, err
	}})
	first := commit("2", versionlog.ExpectVersion("none"))
	write(t, other, s.ID, "/a", "2")
	transport.Arm(fault.Fault{Site: "GetItem META", Times: 1, Action: func(_ *http.Request, _ []byte, send func() (*http.Response, error)) (*http.Response, error) {
		hold()
		return send()
	}})
	second := commit("3", versionlog.ExpectAbsent())
	release <- true // the first, which was told of commit 1
	var conflict *versionlog.ConflictError
	switch r := <-first; {
	case errors.As(r.err, &conflict): // as of commit 1
		if head := conflict.Conflicts[0].Head; head == nil || head.Seq != 1 {
			t.Errorf("refused for %+v", head)
		}
	case r.err != nil || r.c.Seq != 2:
		t.Errorf("%+v, %v: %q is there since commit 2", r.c, r.err, "2")
	}
	release <- true
	if r := <-second; !errors.As(r.err, &conflict) || conflict.Conflicts[0].Head.Seq != 2 {
		t.Errorf("the second: %+v, %v", r.c, r.err)
	}
}
