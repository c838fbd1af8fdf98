package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"mneme/gateway"
	"mneme/tests/harness"
	"mneme/versionlog"
)

// dial opens what a gateway mount has.
func (s *served) dial() versionlog.Log {
	l, err := gateway.Open(s.Context(), s.url, &gateway.Options{Token: func() (string, error) { return s.secret, nil }})
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { _ = l.Close() })
	return l
}

// gateway measures what mounts ask of the server.
func (s *served) gateway() {
	t := s.table("gateway", "what", "mneme", "target", "met")
	row := func(name string, got, quiet, limit float64, unit string) {
		t.row(append([]string{name, figure(got) + unit}, s.goal(name, got, quiet, floor{}, limit, unit)...)...)
	}
	id, l := s.store.Info().ID, s.dial()
	heads := s.timed(s.rounds, func(int) error {
		for _, err := range l.Heads(s.Context(), id, "/", "") {
			if err != nil {
				return err
			}
		}
		return nil
	})
	row(fmt.Sprintf("first load of %d heads, p50", len(s.memories)), heads.median(), heads.least(), 1000, " ms")
	follow := s.follow()
	row("from the answer to a commit to a follower, p99", follow.at(0.99), follow.at(0.9), 50, " ms")
	files := s.either(10_000, 2000)
	greps, requests := s.farGrep(files)
	row(fmt.Sprintf("first grep -r over %d memories in a mount 20 ms away (%.0f requests)", files, requests), greps.median(), greps.least(), 2000, " ms")
	mounts := s.either(1000, 20)
	rss, cpu := s.idle(mounts)
	row(fmt.Sprintf("resident memory with %d idle mounts", mounts), rss, rss, 300, " MB")
	row("processor time of the server meanwhile, of one core", cpu, cpu, 5, " %")
}

// farGrep times grep over a store of so many memories, in mounts that reach the server through a delay and have
// read nothing, and counts the requests that one makes.
func (s *served) farGrep(files int) (took series, requests float64) {
	s.filled("far", files)
	e := harness.NewEnv(s.B)
	away := newCounted(s.B, s.url)
	e.Vars = append(e.Vars, "MNEME_URL="+away.url, "MNEME_TOKEN="+s.secret)
	away.late.Store(int64(20 * time.Millisecond))
	for n := range s.rounds {
		m := e.Mount(s.B, "far:ro")
		before := away.requests.Load()
		began := time.Now()
		if r := m.Try(s.B, "grep -r nothing ."); r.Code != 1 {
			s.Fatal(r)
		}
		took = append(took, float64(time.Since(began).Microseconds())/1000)
		requests = float64(away.requests.Load() - before)
		m.Stop(s.B)
		// The data that it has read is put aside: ext4 makes new files slowly while many have
		// just been removed.
		if err := os.Rename(filepath.Join(e.Home, ".cache"), filepath.Join(e.Home, fmt.Sprint("read-", n))); err != nil {
			s.Fatal(err)
		}
	}
	return took, requests
}

// follow times from the answer to a commit until a follower has it.
func (s *served) follow() (took series) {
	id, writer, reader := s.store.Info().ID, s.dial(), s.dial()
	tip, err := writer.Tip(s.Context(), id)
	if err != nil {
		s.Fatal(err)
	}
	seen := make(chan time.Time)
	ctx, cancel := context.WithCancel(s.Context())
	defer cancel()
	go func() {
		for after := tip.Seq; ; {
			commits, err := reader.Capabilities().Next(ctx, id, after)
			if err != nil {
				if !errors.Is(err, context.Canceled) {
					s.Error(err)
				}
				return
			}
			for range commits {
				after++
				seen <- time.Now()
			}
		}
	}()
	for i := range s.either(1000, 20) {
		if _, err := s.store.Write(s.Context(), "/followed.md", fmt.Append(nil, i), versionlog.ExpectAny()); err != nil {
			s.Fatal(err)
		}
		made := time.Now()
		took = append(took, max(0, float64((<-seen).Sub(made).Nanoseconds())/1e6))
	}
	return took
}

// idle returns what the server has in memory, in 10^6 bytes, and which part of a core it takes,
// in percent, while so many followers wait for a commit that does not come.
func (s *served) idle(mounts int) (rss, cpu float64) {
	id := s.store.Info().ID
	tip, err := s.store.Tip(s.Context())
	if err != nil {
		s.Fatal(err)
	}
	ctx, cancel := context.WithCancel(s.Context())
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	var opening errgroup.Group
	opening.SetLimit(16)
	for range mounts {
		opening.Go(func() error {
			l := s.dial()
			for range 3 { // what a mount asks first
				if _, err := l.Tip(ctx, id); err != nil {
					return err
				}
			}
			all.Go(func() {
				if _, err := l.Capabilities().Next(ctx, id, tip.Seq); err != nil && !errors.Is(err, context.Canceled) {
					s.Error(err)
				}
			})
			return nil
		})
	}
	if err := opening.Wait(); err != nil {
		s.Fatal(err)
	}
	const long = 20 * time.Second
	time.Sleep(5 * time.Second)
	before := s.ticks()
	time.Sleep(long)
	return megabytes(s.B, s.pid, "VmRSS"), (s.ticks() - before) / long.Seconds()
}

// ticks is the processor time that the server has taken, in hundredths of a second.
func (s *served) ticks() float64 { return s.ticksOf(s.pid) }

func (s *served) ticksOf(pid int) (sum float64) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		s.Fatal(err)
	}
	fields := strings.Fields(string(stat)[strings.LastIndexByte(string(stat), ')'):])
	for _, field := range fields[12:14] {
		n, err := strconv.ParseFloat(field, 64)
		if err != nil {
			s.Fatal(err)
		}
		sum += n
	}
	return sum
}
