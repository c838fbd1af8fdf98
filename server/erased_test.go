package server

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"mneme/forget"
	"mneme/memory"
	"mneme/server/access"
	"mneme/server/events"
	"mneme/versionlog"
	"mneme/versionlog/memlog"
)

// TestErased: when versions were erased, by a request or by another process, the server clears its memory,
// and a connection from before ends with its next answer, but none that comes later.
func TestErased(t *testing.T) {
	for _, c := range []struct {
		name     string
		near     bool
		overHTTP bool
		within   time.Duration
	}{
		{"beside it", true, false, 2 * time.Second},
		{"on another machine", false, false, time.Minute + 2*time.Second},
		{"by a request", false, true, 2 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log versionlog.Log = memlog.New(nil)
				if !c.near {
					log = farLog{log}
				}
				r := newRigOver(t, log, Options{})
				secret := r.key(access.Admin, nil)
				stays := func(connected time.Time) bool {
					t.Helper()
					w := r.ask("GET", "/v1/memory_stores/"+r.store.ID+"/memories", "", secret, func(q *http.Request) {
						*q = *q.WithContext(context.WithValue(q.Context(), connectedKey{}, connected))
					})
					if w.Code != http.StatusOK {
						t.Errorf("%d, %s", w.Code, w.Body)
					}
					return w.Header().Get("Connection") == ""
				}
				before := time.Now()
				if !stays(before) {
					t.Error("a connection ends though nothing was erased")
				}
				synctest.Wait() // until the store is followed
				st, err := r.lib.Open(t.Context(), r.store.ID, &memory.Author{Actor: versionlog.Actor{Kind: versionlog.ActorUser, ID: "ada"}})
				r.must(err)
				v, err := st.Write(t.Context(), "/a.md", []byte("the canary"), versionlog.ExpectAny())
				r.must(err)
				_, err = st.Write(t.Context(), "/a.md", []byte("clean"), versionlog.ExpectAny())
				r.must(err)
				if c.overHTTP {
					if w := r.ask("POST", "/v1/memory_stores/"+r.store.ID+"/memory_versions/"+v.ID+"/redact", "", secret); w.Code != http.StatusOK {
						t.Fatalf("%d, %s", w.Code, w.Body)
					}
				} else {
					_, err = forget.Redact(t.Context(), nil, st, &forget.Request{Versions: []string{v.ID}, Reason: "a test"})
					r.must(err)
				}
				time.Sleep(c.within)
				synctest.Wait()
				if stays(before) || !r.eraser.IsRecent() {
					t.Errorf("memory is not cleared after %v", c.within)
				}
				brief, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				stream := r.ask("GET", strings.Replace(events.Path, "{store}", r.store.ID, 1), "", secret, func(q *http.Request) {
					q.Header.Set("Accept", "text/event-stream")
					*q = *q.WithContext(brief)
				})
				if stream.Code != http.StatusOK || stream.Body.Len() < 6<<10 { // what net/http buffers
					t.Errorf("a stream of events: %d, %d bytes", stream.Code, stream.Body.Len())
				}
				if !stays(time.Now()) {
					t.Error("a later connection ends, too")
				}
			})
		})
	}
}

// farLog is a log of another machine.
type farLog struct{ versionlog.Log }

func (l farLog) Capabilities() versionlog.Capabilities {
	can := l.Log.Capabilities()
	can.Near = false
	return can
}
