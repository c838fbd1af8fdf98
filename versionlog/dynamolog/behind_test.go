package dynamolog

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"mneme/internal/testing/awstest"
	"mneme/internal/testing/fault"
	"mneme/versionlog"
)

// TestEraseLatePayer has a process write late what a commit owes, of which another one erases a
// version: in a store of which nothing was ever erased the redaction waits for it, and in
// another one it comes too late.
func TestEraseLatePayer(t *testing.T) {
	t.Parallel()
	for _, guarded := range []bool{false, true} {
		t.Run(fmt.Sprint("guarded ", guarded), func(t *testing.T) {
			t.Parallel()
			b := newBackend(t, awstest.DynamoDB(t))
			transport := newSites()
			late := b.open(t, transport, nil)
			s := addStore(t, late, "notes")
			if guarded {
				first := write(t, late, s.ID, "/x", "first").Versions[0]
				write(t, late, s.ID, "/x", "2")
				before := &erasure{backend: b, store: s, ids: []string{first.ID}}
				if _, err := late.Commit(t.Context(), s.ID, before.proposal()); err != nil {
					t.Fatal(err)
				}
				before.purge(t, late)
			}
			late.settled()
			release := make(chan struct{})
			transport.Arm(fault.Fault{Action: func(req *http.Request, body []byte, send func() (*http.Response, error)) (*http.Response, error) {
				if site := callSite(req, body); strings.HasPrefix(site, "BatchWriteItem") || site == "TransactWriteItems OUT" {
					<-release
				}
				return send()
			}})
			old := write(t, late, s.ID, "/"+marker, "1").Versions[0]
			write(t, late, s.ID, "/"+marker, "2")

			waits := newSites()
			polled := make(chan struct{})
			polls := 0
			waits.Arm(fault.Fault{Site: "Query OUT", Action: func(_ *http.Request, _ []byte, send func() (*http.Response, error)) (*http.Response, error) {
				if polls++; polls == 10 {
					close(polled)
				}
				return send()
			}})
			e := &erasure{backend: b, store: s, ids: []string{old.ID}, traces: []string{old.Digest.String()}}
			other := b.open(t, waits, &Options{Now: func() time.Time { return time.Now().Add(time.Hour) }}) // a clock that is wrong
			if err := other.store(s.ID).load(t.Context()); err != nil {                                     // which pays what it comes upon
				t.Fatal(err)
			}
			other.settled()
			done := make(chan error, 1)
			go func() {
				_, err := other.Commit(t.Context(), s.ID, e.proposal())
				done <- err
			}()
			var err error
			if guarded {
				err = <-done
				close(release)
			} else {
				select {
				case err = <-done:
					t.Error("the redaction does not wait")
					close(release)
				case <-polled:
					close(release)
					err = <-done
				}
			}
			if err != nil {
				t.Fatal(err)
			}
			e.purge(t, other)
			late.settled()
			if found := e.find(t); found != nil {
				t.Errorf("left: %q", found)
			}
			if found := b.check(t, s.ID); found != nil {
				t.Errorf("Check reports %q", found)
			}
			write(t, late, s.ID, "/after", "3")
		})
	}
}

// TestGuardedFitsTransactions: what long messages and paths take counts, of one commit and of
// several together.
func TestGuardedFitsTransactions(t *testing.T) {
	s := &store{log: &Log{}, id: "notes"}
	var debts []debt
	for seq := range uint64(3) {
		c := &versionlog.Commit{StoreID: s.id, Seq: seq + 1, Key: fmt.Sprint("key", seq)}
		for i := range 97 {
			c.Versions = append(c.Versions, versionlog.Version{
				ID: fmt.Sprint(seq, i), MemoryID: fmt.Sprint("mem", i), Seq: c.Seq, Path: "/" + strings.Repeat("p", 1000), Message: strings.Repeat("m", 40_000),
			})
		}
		debts = append(debts, debt{span: span{c.Seq, c.Seq}, sort: fmt.Sprint("OUT#", seq), commits: []*versionlog.Commit{c}})
	}
	rows := 0
	for _, b := range s.guarded(debts) {
		size := 0
		for _, i := range b.items {
			size += sizeOf(i.Put.Item)
		}
		rows += len(b.sorts)
		if size > 4_000_000 || len(b.items) > maxRows {
			t.Errorf("%d rows of %d bytes are one transaction", len(b.items), size)
		}
	}
	if rows != 3*98 {
		t.Errorf("%d rows", rows)
	}
}
