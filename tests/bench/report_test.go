package bench

import (
	"bytes"
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"text/template"
	"time"

	"mneme/tests/harness"
)

// smallVariable names a directory: the benchmarks then measure much less, which
// shows that they work and nothing else, and write their pages there.
const smallVariable = "MNEME_BENCH_SMALL"

// benchWhy says why a result misses its target: "key = text" on each line.
//
//go:embed testdata/why.txt
var benchWhy string

// series are the results of the rounds of one measurement.
type series []float64

func (s series) sorted() series { return slices.Sorted(slices.Values(s)) }

func (s series) median() float64 {
	if len(s) == 0 {
		return 0
	}
	return s.sorted()[len(s)/2]
}

// at is the value below which that part of the results lies.
func (s series) at(part float64) float64 {
	if len(s) == 0 {
		return 0
	}
	return s.sorted()[min(len(s)-1, int(part*float64(len(s))))]
}

func (s series) least() float64 { return s.at(0) }

func (s series) most() float64 { return s.at(1) }

// over returns the ratio to other in each round.
func (s series) over(other series) series {
	var ratios series
	for i := range min(len(s), len(other)) {
		ratios = append(ratios, s[i]/other[i])
	}
	return ratios
}

// figure writes a number with three digits that count.
func figure(f float64) string {
	switch {
	case f == 0:
		return "0"
	case f < 10:
		return fmt.Sprintf("%.2f", f)
	case f < 100:
		return fmt.Sprintf("%.1f", f)
	}
	return fmt.Sprintf("%.0f", f)
}

// withSpread is the median, and the least and the most.
func (s series) withSpread() string {
	if len(s) == 0 {
		return "–"
	}
	return fmt.Sprintf("%s (%s–%s)", figure(s.median()), figure(s.least()), figure(s.most()))
}

// timings are milliseconds by workload and target.
type timings map[string]map[string]series

func (t timings) add(workload, target string, d time.Duration) {
	if t[workload] == nil {
		t[workload] = map[string]series{}
	}
	t[workload][target] = append(t[workload][target], float64(d.Nanoseconds())/1e6)
}

// table is one of Markdown.
type table struct{ rows [][]string }

func (t *table) row(cells ...string) { t.rows = append(t.rows, cells) }

func (t *table) String() string {
	var b strings.Builder
	for i, row := range t.rows {
		fmt.Fprintf(&b, "| %s |\n", strings.Join(row, " | "))
		if i == 0 {
			b.WriteString(strings.Repeat("|---", len(row)) + "|\n")
		}
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// report is a page of docs that a benchmark writes.
type report struct {
	*testing.B
	env    *harness.Env
	small  bool
	files  int // of the corpus
	rounds int
	began  time.Time
	tables map[string]*table // by their names in the page's template
	values map[string]string // others
	missed []string
}

func newReport(b *testing.B) *report {
	r := &report{
		B: b, env: harness.NewEnv(b), files: 10_000, rounds: 7, began: time.Now(), tables: map[string]*table{}, values: map[string]string{},
	}
	if os.Getenv(smallVariable) != "" {
		r.small, r.files, r.rounds = true, 1000, 3
	}
	return r
}

// either is full, or small in a small run.
func (r *report) either(full, small int) int {
	if r.small {
		return small
	}
	return full
}

// table returns the table of that name, which begins with a header.
func (r *report) table(name string, header ...string) *table {
	if r.tables[name] == nil {
		r.tables[name] = &table{rows: [][]string{header}}
	}
	return r.tables[name]
}

// floor is the least time that a file system in user space can take: bare FUSE, and bare FUSE
// with SQLite. A value that is not measured is 0.
type floor struct{ bare, database float64 }

// goal compares a result with its target and returns the two cells that say so. A result that
// misses is listed under key, with the reason that why.txt has, and with the floor if that misses
// too.
func (r *report) goal(key string, got, quiet float64, least floor, limit float64, unit string) []string {
	want := "≤ " + figure(limit) + unit
	const rounding = 0.005
	switch {
	case got <= limit+rounding:
		return []string{want, "yes"}
	case quiet <= limit+rounding:
		r.miss(key, fmt.Sprintf("%s%s, but %s%s in the quietest run; the target is %s%s.",
			figure(got), unit, figure(quiet), unit, figure(limit), unit))
		return []string{want, "when quiet"}
	}
	text := fmt.Sprintf("%s%s, %.0f %% above the target of %s%s.", figure(got), unit, 100*(got/limit-1), figure(limit), unit)
	verdict := "**no**"
	switch {
	case least.bare > limit+rounding:
		text += fmt.Sprintf(" Bare FUSE takes %s%s itself, which is the limit here.", figure(least.bare), unit)
		verdict = "no, nor bare FUSE"
	case least.database > limit+rounding:
		text += fmt.Sprintf(" Bare FUSE with SQLite takes %s%s itself, which is the limit here.", figure(least.database), unit)
		verdict = "no, nor bare FUSE with SQLite"
	}
	r.miss(key, text)
	return []string{want, verdict}
}

// comparedHeader heads what compared returns, after the column of ext4.
var comparedHeader = []string{"mneme, ms", "ratio", "ratio, quiet", "bare FUSE", "with SQLite", "target", "met"}

// floors are the results of which a floor is made.
type floors struct{ bare, database series }

// over returns the floor as ratios to other.
func (f floors) over(other series) floor {
	return floor{f.bare.median() / other.median(), f.database.median() / other.median()}
}

// compared returns the cells of a row that compares a mount with ext4, and the
// floors with that, and has goal judge it; a limit of 0 is none. The quiet ratio is
// that of the fastest rounds, which other programs have disturbed least.
func (r *report) compared(key string, ext4, mount series, least floors, limit float64) []string {
	ratio, quiet, each := mount.median()/ext4.median(), mount.least()/ext4.least(), mount.over(ext4)
	low := least.over(ext4)
	database := "–"
	if len(least.database) > 0 {
		database = figure(low.database)
	}
	verdict := []string{"", ""}
	if limit > 0 {
		verdict = r.goal(key, ratio, quiet, low, limit, "")
	}
	return append([]string{
		ext4.withSpread(), mount.withSpread(),
		fmt.Sprintf("**%s** (%s–%s)", figure(ratio), figure(each.least()), figure(each.most())), figure(quiet), figure(low.bare), database,
	}, verdict...)
}

func (r *report) miss(key, text string) {
	for line := range strings.Lines(benchWhy) {
		if k, why, ok := strings.Cut(line, " = "); ok && k == key {
			text += " " + strings.TrimSpace(why)
		}
	}
	r.missed = append(r.missed, "- **"+key+"**: "+text)
}

// write makes the page of a template, in docs unless the run is small.
func (r *report) write(name, text string) {
	dir := os.Getenv(smallVariable)
	if !r.small {
		dir = filepath.Join("..", "..", "docs")
	}
	missed := "All that were measured are met."
	if len(r.missed) > 0 {
		missed = strings.Join(r.missed, "\n")
	}
	var b bytes.Buffer
	all := map[string]any{
		"t": r.tables, "missed": missed, "machine": r.machine(), "rounds": r.rounds, "files": r.files, "small": r.small,
		"took": time.Since(r.began).Round(time.Second).String(), "date": r.began.Format(time.DateOnly),
	}
	for name, value := range r.values {
		all[name] = value
	}
	err := template.Must(template.New(name).Option("missingkey=error").Parse(text)).Execute(&b, all)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, name), b.Bytes(), 0o644)
	}
	if err != nil {
		r.Fatal(err)
	}
	fmt.Printf("%s is written, after %v\n", filepath.Join(dir, name), time.Since(r.began).Round(time.Second))
}

// machine says what was measured on and with.
func (r *report) machine() string {
	const script = `
echo "$(grep -c ^processor /proc/cpuinfo) × $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1), $(awk '/^MemTotal/ {printf "%.0f", $2 / 1048576}' /proc/meminfo) GiB, Linux $(uname -r)"
echo "$(findmnt -n -o FSTYPE,OPTIONS -T "$1")"
echo "$(sed -n 's/^PRETTY_NAME="\(.*\)"/\1/p' /etc/os-release), $(grep --version | sed 1q), $(rg --version | sed 1q), $(find --version | sed 1q)"
echo "$(rclone version 2>/dev/null | sed 1q), s3fs $(s3fs --version 2>/dev/null | sed -n '1s/.*V\([0-9.]*\).*/\1/p')"
cut -d ' ' -f 1-3 /proc/loadavg`
	out := r.env.Run(r.B, harness.ScriptPatience, "", func() {}, "bash", "-c", script, "bash", r.env.Dir)
	lines := append(strings.Split(out.Stdout, "\n"), make([]string, 5)...)
	revision := r.env.Run(r.B, harness.ScriptPatience, "", func() {}, "git", "-c", "safe.directory=*", "rev-parse", "--short", "HEAD")
	return strings.Join([]string{
		"- " + lines[0],
		"- files on " + lines[1],
		"- " + lines[2],
		"- " + lines[3] + ", versitygw and dynoxide as scripts/install-test-servers.sh has them",
		"- mneme built from " + strings.TrimSpace(revision.Stdout) + " with " + runtime.Version(),
		"- load average when this page was written, the benchmark's own included: " + lines[4],
	}, "\n")
}
