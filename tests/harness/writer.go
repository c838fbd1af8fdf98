package harness

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// A writer is a child process that changes files of a mount, each its own, in
// one style for ever. Before and after every step it says so in a journal
// outside the mount: what is there as done was acknowledged by the system call
// that ended the step.

// journalLine is a line of a writer's journal.
type journalLine struct {
	N    int               `json:"n"`
	Sets map[string]string `json:"sets,omitempty"` // path below the writer's directory to SHA-256, "" for a path that goes; of a step that begins
	Done bool              `json:"done,omitempty"`
	Err  string            `json:"err,omitempty"`
	At   int64             `json:"at"` // CLOCK_MONOTONIC
}

// writer is the state of the child.
type writer struct {
	dir     string // in the mount
	run     string // makes names unique among the runs of one style
	n       int
	journal *os.File
	random  *rand.Rand
}

// WriterStyles are the ways in which programs save files. Each function makes
// one round of steps, the i-th.
var WriterStyles = map[string]func(w *writer, i int) error{
	"close":    (*writer).closing,
	"fsync":    (*writer).fsyncing,
	"replace":  (*writer).replacing,
	"append":   (*writer).appending,
	"mkdir":    (*writer).nesting,
	"unlink":   (*writer).unlinking,
	"move":     (*writer).moving,
	"movedir":  (*writer).movingDirs,
	"truncate": (*writer).truncating,
}

// writerChild runs the writer that the arguments describe until a step fails:
// style, directory, journal, run. A mount that goes away is the normal end.
func writerChild(args []string) error {
	style, ok := WriterStyles[args[0]]
	if !ok || len(args) != 4 {
		return fmt.Errorf("no writer %q", args)
	}
	journal, err := os.OpenFile(args[2], os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer journal.Close()
	seed, err := strconv.ParseUint(args[3], 10, 64)
	if err != nil {
		return err
	}
	w := &writer{dir: args[1], run: args[3], journal: journal, random: rand.New(rand.NewPCG(seed, uint64(len(args[0]))))}
	if err := os.Mkdir(w.dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	for i := 0; ; i++ {
		if err := style(w, i); err != nil {
			return err
		}
	}
}

// step journals one step, which do makes, and what is there once it is done.
func (w *writer) step(sets map[string]string, do func() error) error {
	w.n++
	if err := w.note(journalLine{N: w.n, Sets: sets}); err != nil {
		return err
	}
	if err := do(); err != nil {
		return errors.Join(err, w.note(journalLine{N: w.n, Err: err.Error()}))
	}
	return w.note(journalLine{N: w.n, Done: true})
}

func (w *writer) note(line journalLine) error {
	line.At = Monotonic()
	text, err := json.Marshal(line)
	if err != nil {
		return err
	}
	_, err = w.journal.Write(append(text, '\n'))
	return err
}

// Monotonic is the time since the machine started, in nanoseconds, which is the same
// in all processes.
func Monotonic() int64 {
	var at unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &at); err != nil {
		panic(err)
	}
	return at.Nano()
}

// text returns new content of at least size bytes, different from any other.
func (w *writer) text(size int) string {
	var b strings.Builder
	for line := 0; line == 0 || b.Len() < size; line++ {
		fmt.Fprintf(&b, "run %s step %d line %d of %s: %x\n", w.run, w.n+1, line, filepath.Base(w.dir), w.random.Uint64())
	}
	return b.String()
}

// size is mostly small, sometimes near the limit.
func (w *writer) size() int {
	if w.random.IntN(8) == 0 {
		return w.random.IntN(100_000)
	}
	return w.random.IntN(6_000)
}

// SumOf is the SHA-256 of a text, in hexadecimal digits.
func SumOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

func (w *writer) path(name string) string { return filepath.Join(w.dir, name) }

// save writes a file as most programs do, and is done when close says so.
func (w *writer) save(name, text string, flags int) error {
	return w.step(map[string]string{name: SumOf(text)}, func() error { return writeAndClose(w.path(name), text, flags) })
}

func writeAndClose(path, text string, flags int) error {
	f, err := os.OpenFile(path, flags|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

func (w *writer) closing(i int) error {
	return w.save(fmt.Sprintf("f%d.md", i%7), w.text(w.size()), os.O_CREATE|os.O_TRUNC)
}

// fsyncing saves one open file again and again.
func (w *writer) fsyncing(i int) error {
	name := fmt.Sprintf("f%d.md", i%3)
	f, err := os.OpenFile(w.path(name), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return err
	}
	defer f.Close()
	text := ""
	for size := 100; size < 5_000 && err == nil; size += 1_000 {
		old := text
		text = w.text(size)
		if len(text) < len(old) { // else the old end would stay
			continue
		}
		err = w.step(map[string]string{name: SumOf(text)}, func() error {
			_, err := f.WriteAt([]byte(text), 0)
			if err == nil && old == "" { // what an earlier round left
				err = f.Truncate(int64(len(text)))
			}
			return errors.Join(err, f.Sync())
		})
	}
	return err
}

// replacing saves as editors do: under a temporary name, then over the target.
func (w *writer) replacing(i int) error {
	name := fmt.Sprintf("f%d.md", i%5)
	text := w.text(w.size())
	return w.step(map[string]string{name: SumOf(text)}, func() error {
		temp := w.path(fmt.Sprintf(".%s.tmp.%d", name, os.Getpid()))
		f, err := os.Create(temp)
		if err != nil {
			return err
		}
		_, err = f.WriteString(text)
		if i%2 == 0 {
			err = errors.Join(err, f.Sync())
		}
		if err = errors.Join(err, f.Close()); err != nil {
			return err
		}
		return os.Rename(temp, w.path(name))
	})
}

// appending adds lines to a file, opened again for each.
func (w *writer) appending(i int) error {
	name := fmt.Sprintf("run%s-%d.log", w.run, i)
	all := ""
	for range 30 {
		line := w.text(1)
		all += line
		err := w.step(map[string]string{name: SumOf(all)}, func() error {
			return writeAndClose(w.path(name), line, os.O_CREATE|os.O_APPEND)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// nesting makes directories for its files.
func (w *writer) nesting(i int) error {
	name := fmt.Sprintf("run%s/%d/%d/note.md", w.run, i%3, i)
	text := w.text(200)
	return w.step(map[string]string{name: SumOf(text)}, func() error {
		if err := os.MkdirAll(filepath.Dir(w.path(name)), 0o755); err != nil {
			return err
		}
		return writeAndClose(w.path(name), text, os.O_CREATE|os.O_EXCL)
	})
}

func (w *writer) unlinking(i int) error {
	name := fmt.Sprintf("f%d.md", i%4)
	if err := w.save(name, w.text(300), os.O_CREATE|os.O_TRUNC); err != nil {
		return err
	}
	return w.step(map[string]string{name: ""}, func() error { return os.Remove(w.path(name)) })
}

// moving renames to a name that is free, and then one to a name that is not.
func (w *writer) moving(i int) error {
	from, to := fmt.Sprintf("run%s-%d.md", w.run, i), fmt.Sprintf("run%s-%d.moved.md", w.run, i)
	over := "over.md"
	text := w.text(300)
	if err := w.save(from, text, os.O_CREATE|os.O_EXCL); err != nil {
		return err
	}
	err := w.step(map[string]string{from: "", to: SumOf(text)}, func() error { return os.Rename(w.path(from), w.path(to)) })
	if err != nil {
		return err
	}
	return w.step(map[string]string{to: "", over: SumOf(text)}, func() error { return os.Rename(w.path(to), w.path(over)) })
}

func (w *writer) movingDirs(i int) error {
	from, to := fmt.Sprintf("run%s-%d", w.run, i), fmt.Sprintf("run%s-%d.moved", w.run, i)
	if err := os.Mkdir(w.path(from), 0o755); err != nil {
		return err
	}
	moved := map[string]string{}
	for _, name := range []string{"a.md", "b.md", "c.md"} {
		text := w.text(100)
		if err := w.save(from+"/"+name, text, os.O_CREATE|os.O_EXCL); err != nil {
			return err
		}
		moved[from+"/"+name], moved[to+"/"+name] = "", SumOf(text)
	}
	return w.step(moved, func() error { return os.Rename(w.path(from), w.path(to)) })
}

// truncating shortens a file without opening it for that.
func (w *writer) truncating(i int) error {
	name := fmt.Sprintf("f%d.md", i%4)
	text := w.text(2_000)
	if err := w.save(name, text, os.O_CREATE|os.O_TRUNC); err != nil {
		return err
	}
	short := text[:1+w.random.IntN(len(text)-1)]
	return w.step(map[string]string{name: SumOf(short)}, func() error { return os.Truncate(w.path(name), int64(len(short))) })
}

// WriterStep is a step as the journal has it.
type WriterStep struct {
	writer string
	Sets   map[string]string // paths in the store
	Begun  int64
	Ended  int64 // 0 when nothing is known of its end
	Acked  bool
	Err    string
}

// ReadJournal returns the steps of a journal. prefix is the path of the
// writer's directory in the store.
func ReadJournal(path, name, prefix string) ([]*WriterStep, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var steps []*WriterStep
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		var line journalLine
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			return nil, fmt.Errorf("journal %s: %q: %w", path, lines.Text(), err)
		}
		if line.Sets != nil {
			s := &WriterStep{writer: name, Sets: map[string]string{}, Begun: line.At}
			for p, sum := range line.Sets {
				s.Sets[prefix+"/"+p] = sum
			}
			steps = append(steps, s)
			continue
		}
		last := steps[len(steps)-1]
		last.Ended, last.Acked, last.Err = line.At, line.Done, line.Err
	}
	return steps, lines.Err()
}
