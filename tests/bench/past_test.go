package bench

import (
	_ "embed"
	"fmt"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"mneme/memory"
	"mneme/tests/harness"
	"mneme/versionlog"
)

//go:embed testdata/past.md
var pastPage string

// BenchmarkPast looks at points in the past of a store of 10,000 memories and 100,000 versions,
// and writes docs/BENCHMARKS-PAST.md: the first `ls` of a point, one that the kernel has, and a
// warm `grep -r` beside ext4.
func BenchmarkPast(b *testing.B) {
	for range b.N {
		r := newReport(b)
		harness.NeedTools(b, "rg", "findmnt")
		local := harness.NewEnv(b)
		r.past(local, "embedded")
		r.pastGrep(local)
		aws := harness.NewEnv(b)
		s3, dynamo := aws.OwnServers()
		near, far := newCounted(b, s3.Endpoint), newCounted(b, dynamo.Endpoint)
		aws.GoRemote(near.url, far.url)
		r.past(aws, "S3 and DynamoDB")
		near.late.Store(int64(farDelay))
		far.late.Store(int64(farDelay))
		r.lookAtPast(aws, "S3 and DynamoDB, 20 ms away")
		r.write("BENCHMARKS-PAST.md", pastPage)
		b.ReportMetric(0, "ns/op")
	}
}

const pastAtOnce = 20 // versions of a commit

// past makes the store and looks at it.
func (r *report) past(e *harness.Env, where string) {
	versions := r.either(100_000, 4000)
	memories := versions / 10
	e.Store("notes")
	st := e.OtherSession(r.B, "notes")
	for n := 0; n < versions; {
		var changes []memory.Change
		for range pastAtOnce {
			changes = append(changes, memory.Change{
				Action: versionlog.Put, Path: fmt.Sprintf("/d%d/%d.md", n%100, n%memories), Expect: versionlog.ExpectAny(),
				Content: fmt.Appendf(nil, "text %d\n", n/1000),
			})
			n++
		}
		if _, err := st.Batch(r.Context(), changes, nil); err != nil {
			r.Fatal(err)
		}
	}
	r.lookAtPast(e, where)
}

// newestOf is the sequence number of the store's newest commit.
func (r *report) newestOf(e *harness.Env) uint64 {
	tip, err := e.OtherSession(r.B, "notes").Tip(r.Context())
	if err != nil {
		r.Fatal(err)
	}
	return tip.Seq
}

// lookAtPast times `ls` of old, middle and new points: the first time, in mounts that begin with
// empty caches, and again.
func (r *report) lookAtPast(e *harness.Env, where string) {
	tip := r.newestOf(e)
	took := timings{}
	parts := []string{"a tenth", "half", "nine tenths", "all"}
	for range r.rounds {
		m := e.Mount(r.B, "notes:ro", "--metrics-addr=:0")
		await(r.B, m, r.either(100_000, 4000)/10)
		for i, seq := range []uint64{tip / 10, tip / 2, tip * 9 / 10, tip} {
			at := filepath.Join(m.Dir, ".mneme/at", strconv.FormatUint(seq, 10))
			ls := shell(r.B, r.env, "ls > "+out(r.env))
			for _, when := range []string{"first", "again"} {
				took.add(parts[i], when, ls(at))
			}
		}
		m.Stop(r.B)
	}
	t := r.table("ls", "where", "after that part of the history", "first `ls`, ms", "target", "met", "again, ms", "target", "met")
	for _, part := range parts {
		first, again := took[part]["first"], took[part]["again"]
		key := func(when string) string { return fmt.Sprintf("%s `ls` of the past after %s, %s", when, part, where) }
		row := append([]string{where, part, first.withSpread()}, r.goal(key("first"), first.median(), first.least(), floor{}, 500, " ms")...)
		row = append(append(row, again.withSpread()), r.goal(key("warm"), again.median(), again.least(), floor{}, 50, " ms")...)
		t.row(row...)
	}
}

// pastGrep compares a warm grep of a point with one of a copy of it on ext4.
func (r *report) pastGrep(e *harness.Env) {
	m := e.Mount(r.B, "notes:ro")
	at := filepath.Join(m.Dir, ".mneme/at", strconv.FormatUint(r.newestOf(e)/2, 10))
	local := filepath.Join(r.env.Dir, "copy")
	bench(r.B, r.env, "cp", "-r", at, local)
	grep := shell(r.B, r.env, "grep -rl 'text 4' . > "+out(r.env)+" || :")
	var ext4, mneme series
	for round := range r.rounds + 1 {
		for _, side := range []struct {
			dir string
			of  *series
		}{{local, &ext4}, {at, &mneme}} {
			if d := grep(side.dir); round > 0 {
				*side.of = append(*side.of, float64(d)/float64(time.Millisecond))
			}
		}
	}
	m.Stop(r.B)
	ratio, quiet := mneme.median()/ext4.median(), mneme.least()/ext4.least()
	t := r.table("grep", "work", "ext4, ms", "mneme, ms", "ratio", "ratio, quiet", "target", "met")
	t.row(append([]string{"`grep -r` in `.mneme/at/N`", ext4.withSpread(), mneme.withSpread(), fmt.Sprintf("**%s**", figure(ratio)), figure(quiet)},
		r.goal("warm `grep -r` in `.mneme/at/N`", ratio, quiet, floor{}, 1.2, "")...)...)
}
