package crash

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"mneme/internal/testing/crashfs"
	"mneme/tests/harness"
	"mneme/verify"
	"mneme/versionlog"
)

// keeps is what of the unsynced a power cut may leave.
var keeps = []crashfs.Keep{
	{Data: crashfs.None, Names: crashfs.None},
	{Data: crashfs.Half, Names: crashfs.Half},
	{Data: crashfs.All, Names: crashfs.All},
	{Data: crashfs.None, Names: crashfs.All},
	{Data: crashfs.All, Names: crashfs.None},
}

// Whenever the power fails, the store opens, it verifies, everything that was
// acknowledged is in it, and nothing else but what was under way. A program that
// left out one kind of sync would be found out. The long form cuts the power at
// every call of 1,000 commits, of ten disks, since what an image holds is looked
// at whole.
func TestPowerCut(t *testing.T) {
	for disk := range harness.Times(1, 10) {
		t.Run(fmt.Sprint(disk), func(t *testing.T) { cutPower(t, uint64(disk)) })
	}
}

func cutPower(t *testing.T, seed uint64) {
	p := newPowerCut(t, seed)
	p.work(t, harness.Times(45, 100))
	journal := p.disk.Journal()
	some := somePoints(p, len(journal), 150)
	t.Run("holds", func(t *testing.T) {
		points := some
		if harness.Torture() {
			points = everyPoint(len(journal))
		}
		c := newCutCheck(t, p)
		for _, err := range c.images(t, journal, points) {
			t.Error(err)
		}
		t.Logf("%d commits and stores, %d of them acknowledged, %d kills, %d calls; %d crash points, %d images, %d of them different, %d opened by the command line",
			len(p.steps), len(c.acknowledged(len(journal))), p.kills, len(journal), len(points), c.made, len(c.seen), c.commands)
		if len(c.seen) < len(points) || p.kills == 0 || c.commands == 0 {
			t.Errorf("that is too little to show anything")
		}
	})
	for what, leftOut := range syncs {
		t.Run("without sync of "+what, func(t *testing.T) {
			broken := make([]crashfs.Op, len(journal))
			for i, op := range journal {
				if !leftOut(op) {
					broken[i] = op
				}
			}
			c := newCutCheck(t, p)
			c.enough = 1
			if len(c.images(t, broken, some)) == 0 {
				t.Errorf("every image is good")
			}
		})
	}
}

// syncs are the kinds of syncs, all of which mneme needs.
var syncs = map[string]func(op crashfs.Op) bool{
	"the log":      func(op crashfs.Op) bool { return op.Kind == crashfs.Fsync && strings.HasSuffix(op.Path, "log.db-wal") },
	"the database": func(op crashfs.Op) bool { return op.Kind == crashfs.Fsync && strings.HasSuffix(op.Path, "log.db") },
	"blobs":        func(op crashfs.Op) bool { return op.Kind == crashfs.Fsync && strings.Contains(op.Path, "/blobs/") },
	"names of blobs": func(op crashfs.Op) bool {
		return op.Kind == crashfs.FsyncDir && strings.Contains(op.Path, "/blobs/")
	},
	"names of stores": func(op crashfs.Op) bool {
		return op.Kind == crashfs.FsyncDir && strings.HasPrefix(op.Path, "mneme/stores") && !strings.Contains(op.Path, "/blobs/")
	},
	"names of the log": func(op crashfs.Op) bool { return op.Kind == crashfs.FsyncDir && op.Path == "mneme" },
}

func everyPoint(calls int) []int {
	points := make([]int, calls+1)
	for i := range points {
		points[i] = i
	}
	return points
}

// somePoints are spread evenly over the journal, but for those right after an
// acknowledgement, where most can be missing: half of them all.
func somePoints(p *powerCut, calls, n int) []int {
	wanted := map[int]bool{0: true, calls: true}
	for i := range n / 2 {
		wanted[i*calls/(n/2)] = true
	}
	for i := 0; len(wanted) < n && i < len(p.steps); i++ {
		if s := p.steps[i*37%len(p.steps)]; s.acked > 0 {
			wanted[s.acked] = true
		}
	}
	for len(wanted) < min(n, calls) {
		wanted[p.random.IntN(calls)] = true
	}
	points := everyPoint(calls)
	kept := points[:0]
	for _, at := range points {
		if wanted[at] {
			kept = append(kept, at)
		}
	}
	return kept
}

// cutCheck checks images.
type cutCheck struct {
	p      *powerCut
	dir    string // for the images
	enough int    // bad images to stop after

	mu       sync.Mutex
	seen     map[uint64]*cutState // by Image.Sum
	made     int
	commands int
	failures []error
}

// cutState is what an image holds: the commits of each store in order, or why
// it cannot be told.
type cutState struct {
	once    sync.Once
	commits map[string][]string
	err     error
}

func newCutCheck(t *testing.T, p *powerCut) *cutCheck {
	t.Helper()
	parent := "/dev/shm" // opening an image syncs
	if _, err := os.Stat(parent); err != nil {
		parent = harness.WorkDir
	}
	dir, err := os.MkdirTemp(parent, "mneme-images-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return &cutCheck{p: p, dir: dir, enough: 5, seen: map[uint64]*cutState{}}
}

// images checks what a power cut leaves at those points and returns what is
// wrong, of the first few bad images.
func (c *cutCheck) images(t *testing.T, journal []crashfs.Op, points []int) []error {
	t.Helper()
	disk, done := crashfs.NewDisk(), 0
	var work sync.WaitGroup
	free := make(chan struct{}, 4)
	for n, at := range points {
		if n%1000 == 0 && n > 0 {
			t.Logf("%d of %d crash points", n, len(points))
		}
		for ; done < at; done++ {
			disk.Do(journal[done])
		}
		for i, keep := range keeps {
			if !harness.Torture() && i > 2 && at%2 == i%2 { // the last two in turn
				continue
			}
			image := disk.Image(keep, uint64(at))
			free <- struct{}{}
			work.Go(func() {
				defer func() { <-free }()
				if err := c.image(t.Context(), image, at, i == 0 && at%29 == 0); err != nil {
					last := "none"
					if at > 0 {
						last = journal[at-1].String()
					}
					c.fail(fmt.Errorf("power cut after call %d (%s), leaving %v: %w", at, last, keep, err))
				}
			})
		}
		if c.failed() >= c.enough {
			break
		}
	}
	work.Wait()
	return c.failures
}

func (c *cutCheck) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failures = append(c.failures, err)
}

func (c *cutCheck) failed() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.failures)
}

func (c *cutCheck) image(ctx context.Context, image crashfs.Image, at int, command bool) error {
	sum := image.Sum()
	c.mu.Lock()
	c.made++
	state := c.seen[sum]
	if state == nil {
		state = &cutState{}
		c.seen[sum] = state
	}
	c.mu.Unlock()
	state.once.Do(func() {
		command = command || at < c.p.steps[0].acked
		if state.commits, state.err = c.look(ctx, image, command); state.err != nil {
			state.err = fmt.Errorf("%w; the image has %v", state.err, image.Names())
		}
	})
	if state.err != nil {
		return state.err
	}
	return c.compare(state.commits, at)
}

// look makes the image, brings it into use, and returns its commits.
func (c *cutCheck) look(ctx context.Context, image crashfs.Image, command bool) (commits map[string][]string, err error) {
	dir, err := os.MkdirTemp(c.dir, "")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := image.WriteTo(dir); err != nil {
		return nil, err
	}
	stores := filepath.Join(dir, "mneme")
	if command {
		if err := c.command(stores); err != nil {
			return nil, err
		}
	}
	e, err := harness.OpenEmbedded(ctx, stores)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	return lookInto(ctx, e)
}

// command has the command line create the first store, unless it is there, and
// check it.
func (c *cutCheck) command(stores string) error {
	c.mu.Lock()
	c.commands++
	c.mu.Unlock()
	for _, args := range [][]string{{"store", "create", "notes", "--if-missing"}, {"fsck", "notes"}} {
		cmd := c.p.env.Command("", append([]string{"--url=file://" + stores}, args...)...)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("mneme %s: %w\n%s", strings.Join(args, " "), err, out)
		}
	}
	return nil
}

// lookInto verifies every store, returns its commits, and writes to it.
func lookInto(ctx context.Context, e *harness.Embedded) (map[string][]string, error) {
	found := map[string][]string{}
	infos, err := e.Stores(ctx)
	if err != nil {
		return nil, err
	}
	for _, info := range infos {
		store, err := e.OpenNamed(ctx, info.Slug)
		if err != nil {
			return nil, err
		}
		var problems []error
		_, err = verify.Store(ctx, store, nil, func(p verify.Problem) {
			problems = append(problems, fmt.Errorf("%s: %s: %s", p.Kind, p.Subject, p.What))
		})
		if err = errors.Join(err, errors.Join(problems...)); err != nil {
			return nil, fmt.Errorf("store %s: %w", info.Slug, err)
		}
		found[info.Slug] = []string{}
		for c, err := range store.Commits(ctx, 0) {
			if err != nil {
				return nil, err
			}
			found[info.Slug] = append(found[info.Slug], setsOf(setsOfCommit(c)))
		}
		if _, err := store.Write(ctx, "/after/all", []byte("still in use\n"), versionlog.ExpectAbsent()); err != nil {
			return nil, fmt.Errorf("write to store %s: %w", info.Slug, err)
		}
	}
	return found, nil
}

func setsOfCommit(c *versionlog.Commit) map[string]string {
	sets := map[string]string{}
	for _, v := range c.Versions {
		if v.Op == versionlog.OpRenamed {
			sets[v.From] = ""
		}
		sets[v.Path] = ""
		if v.Live() {
			sets[v.Path] = v.Digest.String()
		}
	}
	return sets
}

func (c *cutCheck) acknowledged(at int) []*cutStep {
	var acked []*cutStep
	for _, s := range c.p.steps {
		if s.acked > 0 && s.acked <= at {
			acked = append(acked, s)
		}
	}
	return acked
}

// compare holds the commits of an image against the steps up to a point: every
// acknowledged one is there, in order, and none that was not begun.
func (c *cutCheck) compare(commits map[string][]string, at int) error {
	steps := map[string][]*cutStep{} // begun, by store and what they set, oldest first
	for _, s := range c.p.steps {
		if s.begun < at {
			steps[s.store+" "+s.sets] = append(steps[s.store+" "+s.sets], s)
		}
	}
	there := map[*cutStep]bool{}
	for store, all := range commits {
		if len(all) > 0 && all[0] == "" { // the creation, which is one step with the store
			all = all[1:]
		} else if made := steps[store+" "]; len(made) > 0 && made[0].acked > 0 && made[0].acked <= at {
			return fmt.Errorf("the history of store %s lacks its creation", store)
		}
		latest := 0 // beginning of the last step that is in the history
		for _, sets := range append([]string{""}, all...) {
			same := steps[store+" "+sets]
			if len(same) == 0 {
				if store == "notes" && sets == "" { // made just now
					continue
				}
				return fmt.Errorf("store %s holds what nobody had begun to write: %q", store, sets)
			}
			s := same[0]
			steps[store+" "+sets] = same[1:]
			there[s] = true
			if s.acked > 0 && s.acked <= latest {
				return fmt.Errorf("%v stands after what was begun after call %d", s, latest)
			}
			latest = max(latest, s.begun)
		}
	}
	for _, s := range c.acknowledged(at) {
		if !there[s] {
			return fmt.Errorf("%v is lost", s)
		}
	}
	return nil
}
