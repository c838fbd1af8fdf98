package conflict

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// coherence is a child process that changes files through one mount and reads
// them through another. Every content says which one it is in every line, and
// how long it is.
type coherence struct {
	writing, reading string // the two mounts' directories
	bound            time.Duration
	start            time.Time

	states map[string][]state // of every path, oldest first; the writer's until it is done
	next   int                // content to be written next
}

// state is what a path held, content 0 being nothing: from when it was begun to
// be written at the earliest until the change after it was done at the latest.
type state struct {
	content     int
	from, until time.Duration
}

// sight is what a reader found at a path.
type sight struct {
	path       string
	content    int
	begin, end time.Duration
}

const forEver = time.Duration(1<<63 - 1)

// coherenceChild runs so many operations and then says what was wrong, a line
// each: directory to write, directory to read, operations, seed, bound.
func coherenceChild(args []string) error {
	operations, err := strconv.Atoi(args[2])
	if err != nil {
		return err
	}
	seed, err := strconv.ParseUint(args[3], 10, 64)
	if err != nil {
		return err
	}
	bound, err := time.ParseDuration(args[4])
	if err != nil {
		return err
	}
	c := &coherence{writing: args[0], reading: args[1], bound: bound, start: time.Now(), states: map[string][]state{}, next: 1}
	for d := range 3 {
		for f := range 4 {
			c.states[fmt.Sprintf("d%d/f%d", d, f)] = []state{{until: forEver}}
		}
	}
	paths := slices.Sorted(maps.Keys(c.states))
	stop := make(chan struct{})
	seen := make([][]sight, 2)
	wrong := make(chan error, len(seen)+1)
	var readers sync.WaitGroup
	for i := range seen {
		readers.Go(func() {
			random := rand.New(rand.NewPCG(seed, uint64(i)))
			var err error
			for err == nil {
				select {
				case <-stop:
					return
				default:
				}
				var s sight
				s, err = c.look(paths[random.IntN(len(paths))])
				if err == nil {
					seen[i] = append(seen[i], s)
				}
			}
			wrong <- err
		})
	}
	random := rand.New(rand.NewPCG(seed, 99))
	for range operations {
		if err = c.change(paths, random); err != nil {
			break
		}
	}
	close(stop)
	readers.Wait()
	close(wrong)
	for w := range wrong {
		err = errors.Join(err, w)
	}
	total, files := 0, 0
	for _, s := range slices.Concat(seen...) {
		total++
		if s.content > 0 {
			files++
		}
		if e := c.check(s); e != nil {
			err = errors.Join(err, e)
		}
	}
	fmt.Printf("%d changes, %d looks, %d of them at a file\n", operations, total, files)
	return errors.Join(err, c.converged(paths))
}

func (c *coherence) now() time.Duration { return time.Since(c.start) }

// text makes a content whose size follows from its number.
func contentText(number int) []byte {
	line := fmt.Sprintf("content %d\n", number)
	size := []int{1, 30, 300, 900, 4000}[number%5]
	return []byte(fmt.Sprintf("%s%d lines\n", line, size) + strings.Repeat(line, size))
}

func parseContent(text string) (int, error) {
	line, _, _ := strings.Cut(text, "\n")
	var number int
	if _, err := fmt.Sscanf(line, "content %d", &number); err != nil {
		return 0, fmt.Errorf("it begins with %q", line)
	}
	if want := string(contentText(number)); text != want {
		at := 0
		for at < min(len(text), len(want)) && text[at] == want[at] {
			at++
		}
		return 0, fmt.Errorf("content %d of %d bytes has %d bytes and differs from byte %d on: %.30q", number, len(want), len(text), at, text[at:])
	}
	return number, nil
}

// look reads a file with one system call.
func (c *coherence) look(path string) (sight, error) {
	s := sight{path: path, begin: c.now()}
	buffer := make([]byte, 256<<10)
	fd, err := syscall.Open(filepath.Join(c.reading, path), syscall.O_RDONLY, 0)
	if err != nil {
		s.end = c.now()
		if !errors.Is(err, syscall.ENOENT) {
			return s, fmt.Errorf("open %s: %w", path, err)
		}
		return s, nil
	}
	n, err := syscall.Read(fd, buffer)
	s.end = c.now()
	_ = syscall.Close(fd)
	if err != nil {
		return s, fmt.Errorf("read %s: %w", path, err)
	}
	if s.content, err = parseContent(string(buffer[:n])); err != nil {
		return s, fmt.Errorf("%s at %v: %w", path, s.begin, err)
	}
	return s, nil
}

// change makes one change of a random kind.
func (c *coherence) change(paths []string, random *rand.Rand) error {
	path := paths[random.IntN(len(paths))]
	current := c.states[path][len(c.states[path])-1].content
	to := paths[random.IntN(len(paths))]
	target := filepath.Join(c.writing, path)
	begin := c.now()
	switch kind := random.IntN(10); {
	case current == 0 || kind < 5:
		number := c.next
		c.next++
		if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(target, contentText(number), 0o644); err != nil {
			return err
		}
		c.became(path, number, begin)
	case kind < 7:
		if err := os.Remove(target); err != nil {
			return err
		}
		c.became(path, 0, begin)
	case kind < 8:
		number := c.next
		c.next++
		if err := os.WriteFile(target+".tmp", contentText(number), 0o644); err != nil {
			return err
		}
		begin = c.now()
		if err := os.Rename(target+".tmp", target); err != nil {
			return err
		}
		c.became(path, number, begin)
	case to != path:
		other := filepath.Join(c.writing, to)
		if err := os.MkdirAll(filepath.Dir(other), 0o755); err != nil {
			return err
		}
		if err := os.Rename(target, other); err != nil {
			return err
		}
		c.became(path, 0, begin)
		c.became(to, current, begin)
	}
	return nil
}

// became notes that a path holds something else since an operation that has
// just ended.
func (c *coherence) became(path string, content int, begin time.Duration) {
	states := c.states[path]
	states[len(states)-1].until = c.now()
	c.states[path] = append(states, state{content: content, from: begin, until: forEver})
}

// check reports a sight of a text that the path had not held for longer than the bound.
func (c *coherence) check(s sight) error {
	for _, st := range c.states[s.path] {
		if st.content == s.content && st.from <= s.end && (st.until == forEver || st.until+c.bound >= s.begin) {
			return nil
		}
	}
	var near []string
	for _, st := range c.states[s.path] {
		if st.content == s.content || st.from <= s.end && st.until >= s.begin {
			near = append(near, fmt.Sprintf("%d from %v until %v", st.content, st.from, st.until))
		}
	}
	return fmt.Errorf("%s held content %d from %v to %v; the states were %v", s.path, s.content, s.begin, s.end, near)
}

// converged waits until the reader sees what there is in the end.
func (c *coherence) converged(paths []string) error {
	var err error
	for deadline := time.Now().Add(c.bound); ; time.Sleep(5 * time.Millisecond) {
		err = nil
		for _, path := range paths {
			states := c.states[path]
			want := states[len(states)-1].content
			s, lookErr := c.look(path)
			if lookErr == nil && s.content != want {
				lookErr = fmt.Errorf("in the end %s holds content %d, want %d", path, s.content, want)
			}
			err = errors.Join(err, lookErr)
		}
		if err == nil || time.Now().After(deadline) {
			return err
		}
	}
}
