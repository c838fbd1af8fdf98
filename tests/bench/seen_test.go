package bench

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

// changeKinds are the kinds of changes that benchSee makes in turns.
var changeKinds = []string{"overwrite", "create", "delete", "rename"}

const seenPatience = 30 * time.Second

// awaited is a change that was made in one directory and is awaited in the other.
type awaited struct {
	kind string
	made time.Time            // the call that made it has returned
	seen func() (bool, error) // in the other directory
}

// benchSee makes changes in one mount and prints for each its kind and after how many
// milliseconds another mount shows it, or "never". The files that it changes exist and are known
// to both before.
func benchSee(writer, seer, count string) error {
	n, err := strconv.Atoi(count)
	if err != nil {
		return err
	}
	if err := prepareSeen(writer, seer, n); err != nil {
		return err
	}
	made := make(chan awaited, n)
	var all sync.WaitGroup
	var lookErr error
	all.Go(func() { lookErr = look(made) })
	for i := range n {
		c, err := makeChange(i, writer, seer)
		if err != nil {
			return fmt.Errorf("%s %d: %w", c.kind, i, err)
		}
		made <- c
	}
	close(made)
	all.Wait()
	return lookErr
}

// seenName is the file that the change of that number is about.
func seenName(i int) string { return fmt.Sprintf("seen%d.md", i) }

func oldText(i int) string { return fmt.Sprintf("what was there before %d\n", i) }

func newText(i int) string { return fmt.Sprintf("what is there after change %d\n", i) }

// prepareSeen makes the files that will be overwritten, deleted or renamed, and waits until the
// other mount has read them all.
func prepareSeen(writer, seer string, n int) error {
	for i := range n {
		if changeKinds[i%len(changeKinds)] == "create" {
			continue
		}
		if err := os.WriteFile(filepath.Join(writer, seenName(i)), []byte(oldText(i)), 0o644); err != nil {
			return err
		}
	}
	deadline := time.Now().Add(2 * seenPatience)
	for i := range n {
		if changeKinds[i%len(changeKinds)] == "create" {
			continue
		}
		for !shows(seer, seenName(i), oldText(i)) {
			if time.Now().After(deadline) {
				return fmt.Errorf("%s does not show up", seenName(i))
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
	return nil
}

// makeChange makes the change of that number.
func makeChange(i int, writer, seer string) (c awaited, err error) {
	c.kind = changeKinds[i%len(changeKinds)]
	name := seenName(i)
	switch at := filepath.Join(writer, name); c.kind {
	case "overwrite", "create":
		err = os.WriteFile(at, []byte(newText(i)), 0o644)
		c.seen = func() (bool, error) { return shows(seer, name, newText(i)), nil }
	case "delete":
		err = os.Remove(at)
		c.seen = func() (bool, error) { return lacksFile(seer, name) }
	case "rename":
		err = os.Rename(at, strings.TrimSuffix(at, ".md")+".new.md")
		c.seen = func() (bool, error) {
			lacks, err := lacksFile(seer, name)
			return lacks && shows(seer, strings.TrimSuffix(name, ".md")+".new.md", oldText(i)), err
		}
	}
	c.made = time.Now()
	return c, err
}

func shows(dir, name, text string) bool {
	data, err := os.ReadFile(filepath.Join(dir, name))
	return err == nil && string(data) == text
}

func lacksFile(dir, name string) (bool, error) {
	_, err := os.Lstat(filepath.Join(dir, name))
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	return false, err
}

// look asks in turns for all that has been made and not been seen.
func look(made <-chan awaited) error {
	var waiting []awaited
	for open := true; open || len(waiting) > 0; {
		for open && (len(waiting) == 0 || len(made) > 0) {
			var c awaited
			if c, open = <-made; open {
				waiting = append(waiting, c)
			}
		}
		var still []awaited
		for _, c := range waiting {
			seen, err := c.seen()
			took := time.Since(c.made)
			switch {
			case err != nil:
				return err
			case seen:
				fmt.Printf("%s %.3f\n", c.kind, float64(took.Microseconds())/1000)
			case took > seenPatience:
				fmt.Println(c.kind, "never")
			default:
				still = append(still, c)
			}
		}
		waiting = still
		time.Sleep(200 * time.Microsecond) // leaves a processor to the others
	}
	return nil
}
