package bench

import (
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"mneme/internal/testing/awstest"
	"mneme/tests/harness"
)

//go:embed testdata/writing.md
var writingPage string

// BenchmarkWriting measures writes, how soon others see them, and what they ask
// of S3, and writes docs/BENCHMARKS-WRITES.md.
func BenchmarkWriting(b *testing.B) {
	for range b.N {
		r := newReport(b)
		harness.NeedTools(b, "findmnt", "git", "python3", "rclone", "s3fs", "strace")
		r.saves()
		r.imports()
		r.onDisk()
		r.savePeers()
		r.seen()
		r.requestsToS3()
		r.write("BENCHMARKS-WRITES.md", writingPage)
		b.ReportMetric(0, "ns/op")
	}
}

var sizeNames = map[string]string{"4096": "4 KB", "65536": "64 KB"}

// saves times durable writes, new and again: plain ones on the mount, safe ones
// on ext4.
func (r *report) saves() {
	count := strconv.Itoa(r.either(100, 20))
	m := r.env.Mount(r.B, "saves")
	bare := map[string]*peer{}
	for _, store := range bareStores {
		bare[store] = mountBare(r.B, r.env, "", "rw", store)
		defer bare[store].stop()
	}
	took := timings{}
	var names []string
	for _, size := range []string{"4096", "65536"} {
		for round := range r.rounds {
			took.add(sizeNames[size], "disk", timed(r.B, r.env, "sync", count, size)(r.env.Dir))
			for _, kind := range []string{"new", "rewritten"} {
				name := sizeNames[size] + ", " + kind
				if round == 0 {
					names = append(names, name)
				}
				n := fmt.Sprintf("saves%s-%d", size, round)
				took.add(name, "ext4", timed(r.B, r.env, "safe", count, size)(filepath.Join(r.env.Dir, n)))
				took.add(name, "mneme", timed(r.B, r.env, "write", count, size)(filepath.Join(m.Dir, n)))
				for store, p := range bare {
					took.add(name, store, timed(r.B, r.env, "write", count, size)(filepath.Join(p.dir, n)))
				}
			}
		}
	}
	t := r.table("saves", append([]string{"open, write, close", "ext4 safe save, ms"}, comparedHeader...)...)
	for _, name := range names {
		s := took[name]
		least := floors{s["memory"], s["database"]}
		t.row(append([]string{name}, r.compared("durable write of "+name, s["ext4"], s["mneme"], least, 1)...)...)
	}
	m.Stop(r.B)
	disk := r.table("disk", "what the disk takes", "ms")
	for _, size := range []string{"4 KB", "64 KB"} {
		disk.row(size+" written over, fdatasync", took[size]["disk"].withSpread())
	}
}

// imports copies a tree with cp -r through a mount and, in turns with that, to
// the file system below: as cp does, and with every file made durable, which is
// what a mount promises. One more copy, under strace, counts the fsyncs.
func (r *report) imports() {
	files := r.either(2000, 200)
	from := filepath.Join(r.env.Dir, "import")
	corpus(r.B, from, files)
	took := timings{}
	m := r.env.Mount(r.B, "imports")
	into := func(name string, round int) string { return filepath.Join(m.Dir, fmt.Sprint(name, round)) }
	for round := range r.rounds {
		took.add("import", "mneme", shell(r.B, r.env, "cp -r . "+into("copy", round))(from))
		local := fmt.Sprintf("%s-%d", from, round)
		took.add("import", "cp", shell(r.B, r.env, "cp -r . "+local)(from))
		start := time.Now()
		if err := copyDurably(from, local+"-durable"); err != nil {
			r.Fatal(err)
		}
		took.add("import", "durable", time.Since(start))
	}
	syncs := m.Fsyncs(r.B, func() { shell(r.B, r.env, "cp -r . "+into("counted", 0))(from) })
	m.Stop(r.B)
	t := r.table("imports", fmt.Sprintf("%d files", files), "ms", "files/s", "times `cp -r`")
	for _, way := range []struct{ name, key string }{
		{"`cp -r` to ext4, nothing durable when it returns", "cp"},
		{"copied to ext4, fsync of every file and of its directory", "durable"},
		{fmt.Sprintf("**`cp -r` through a mount of mneme**, %.2f fsyncs per file", float64(syncs)/float64(files)), "mneme"},
	} {
		s := took["import"][way.key]
		t.row(way.name, s.withSpread(), figure(1000*float64(files)/s.median()), figure(s.median()/took["import"]["cp"].median()))
	}
}

// copyDurably copies a tree with an fsync of every file and, since that is what
// makes a name durable, of its directory.
func copyDurably(from, to string) error {
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		target := filepath.Join(to, strings.TrimPrefix(path, from))
		if d.IsDir() {
			return os.MkdirAll(target, 0o755)
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		f, err := os.Create(target)
		if err != nil {
			return err
		}
		_, err = f.Write(data)
		err = errors.Join(err, f.Sync(), f.Close())
		if err != nil {
			return err
		}
		dir, err := os.Open(filepath.Dir(target))
		if err != nil {
			return err
		}
		return errors.Join(dir.Sync(), dir.Close())
	})
}

// pair is two mounts of one store or bucket.
type pair struct {
	name         string
	writer, seer string // directories
}

// pairs mounts, twice each: mneme embedded, mneme on S3 and DynamoDB, and the
// peers; each on a bucket of its own.
func (r *report) pairs(s3 string) []pair {
	aws, local := r.onAWS(s3, awstest.DynamoDB(r.B)), harness.NewEnv(r.B)
	forRclone, forS3fs := bucket(r.B, r.env, s3, ""), bucket(r.B, r.env, s3, "")
	both := func(name string, mount func() string) pair { return pair{name, mount(), mount()} }
	return []pair{
		both("mneme, embedded", func() string { return local.Mount(r.B, "notes").Dir }),
		both("mneme on S3 and DynamoDB", func() string { return aws.Mount(r.B, "notes").Dir }),
		both("rclone mount", func() string { return rclone(r.B, r.env, s3, forRclone, peersDoubt).dir }),
		both("s3fs", func() string { return s3fs(r.B, r.env, s3, forS3fs, peersDoubt).dir }),
	}
}

// savePeers times open, write, close on everything that is mounted.
func (r *report) savePeers() {
	count := strconv.Itoa(r.either(30, 5))
	all := r.pairs(awstest.NewS3(r.B).Endpoint)
	t := r.table("savePeers", "open, write, close; ms")
	for _, p := range all {
		t.rows[0] = append(t.rows[0], p.name)
	}
	for _, size := range []string{"4096", "65536"} {
		took := timings{}
		for round := range r.rounds {
			for _, kind := range []string{"new", "rewritten"} {
				for _, p := range all {
					dir := filepath.Join(p.writer, fmt.Sprintf("save%s-%d", size, round))
					took.add(kind, p.name, timed(r.B, r.env, "write", count, size)(dir))
				}
			}
		}
		for _, kind := range []string{"new", "rewritten"} {
			row := []string{sizeNames[size] + ", " + kind}
			for _, p := range all {
				row = append(row, took[kind][p.name].withSpread())
			}
			t.row(row...)
		}
	}
}

// seen measures how long after the call that made it a change is seen in another
// mount.
func (r *report) seen() {
	changes := r.either(500, 40)
	t := r.table("seen", fmt.Sprintf("%d changes", changes), "p50, ms", "p99, ms", "most, ms", "most by overwrite, create, delete, rename", "never within 30 s")
	for _, p := range r.pairs(awstest.NewS3(r.B).Endpoint) {
		var all series
		by := map[string]series{}
		never := 0
		for line := range strings.Lines(runBenchChild(r.B, r.env, "see", p.writer, p.seer, strconv.Itoa(changes))) {
			kind, text, _ := strings.Cut(strings.TrimSpace(line), " ")
			took, err := strconv.ParseFloat(text, 64)
			if err != nil {
				never++
				continue
			}
			all, by[kind] = append(all, took), append(by[kind], took)
		}
		var most []string
		for _, kind := range changeKinds {
			most = append(most, figure(by[kind].most()))
		}
		t.row(p.name, figure(all.median()), figure(all.at(0.99)), figure(all.most()), strings.Join(most, ", "), strconv.Itoa(never))
	}
}

// requestsToS3 counts what everyday work asks of the servers, from the mount's
// start on.
func (r *report) requestsToS3() {
	files, some := r.either(1000, 100), r.either(100, 10)
	dir := filepath.Join(r.env.Dir, "counted")
	paths := corpus(r.B, dir, files)
	s3 := awstest.NewS3(r.B).Endpoint
	forRclone, forS3fs := bucket(r.B, r.env, s3, dir), bucket(r.B, r.env, s3, dir)
	tables := newCounted(r.B, awstest.DynamoDB(r.B))
	objects := newCounted(r.B, s3)
	aws := r.onAWS(objects.url, tables.url)
	fill(r.B, aws, "notes", dir, paths)
	contenders := []struct {
		name  string
		mount func() (dir string, end func())
	}{
		{"mneme, S3", func() (string, func()) {
			m := aws.Mount(r.B, "notes")
			return m.Dir, func() { m.Stop(r.B) }
		}},
		{"rclone mount, S3", func() (string, func()) {
			p := rclone(r.B, r.env, objects.url, forRclone, peersTrust)
			return p.dir, p.stop
		}},
		{"s3fs, S3", func() (string, func()) {
			p := s3fs(r.B, r.env, objects.url, forS3fs, peersTrust)
			return p.dir, p.stop
		}},
	}
	steps := []struct{ name, script string }{
		{"mount, and `cat` of one file", "cat dir001/file07.md"},
		{"first `find`", "find . -type f"},
		{fmt.Sprintf("first `grep -r` over %d files", files), "grep -r wizards ."},
		{"second `grep -r`", "grep -r wizards ."},
		{fmt.Sprintf("%d new files of 4 KB", some), fmt.Sprintf(`mkdir new && for i in $(seq %d); do head -c 4000 /dev/zero | tr '\0' x > new/$i; echo $i >> new/$i; done`, some)},
		{fmt.Sprintf("%d files rewritten", some), fmt.Sprintf(`for i in $(seq %d); do echo again $i > new/$i; done`, some)},
		{"one of these directories renamed", "mv new old"},
		{fmt.Sprintf("%d files removed", some), "rm -r old"},
	}
	counts := make([][]string, len(steps))
	for _, c := range contenders {
		objects.requests.Store(0)
		tables.requests.Store(0)
		at, end := c.mount()
		for i, step := range steps {
			bench(r.B, r.env, "bash", "-euo", "pipefail", "-c", "cd "+at+" && { "+step.script+"; } > "+out(r.env))
			counts[i] = append(counts[i], fmt.Sprint(objects.settled()))
			objects.requests.Store(0)
			if made := tables.requests.Swap(0); strings.HasPrefix(c.name, "mneme") {
				counts[i] = append(counts[i], fmt.Sprint(made))
			}
		}
		end()
	}
	t := r.table("requests", "work", "mneme, S3", "mneme, DynamoDB", "rclone mount, S3", "s3fs, S3")
	for i, step := range steps {
		t.row(append([]string{step.name}, counts[i]...)...)
	}
}
