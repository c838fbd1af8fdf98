package bench

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// benchChild does one timed thing and prints how many nanoseconds it took, so that starting a
// process is not in the figure: what, directory, then a list of paths ("read", "parallel") or a
// count and a size in bytes ("write", "safe", "sync"). The output of "see" and "saves" is
// described there; "start" gets a file and the command that mounts it.
func benchChild(args []string) error {
	var took time.Duration
	var err error
	switch what, dir := args[0], args[1]; what {
	case "read":
		took, err = benchRead(dir, args[2], 1)
	case "parallel":
		took, err = benchRead(dir, args[2], 64)
	case "write", "safe":
		took, err = benchSave(dir, args[2], args[3], what == "safe")
	case "sync":
		took, err = benchSync(dir, args[2], args[3])
	case "start":
		took, err = benchStart(dir, args[2:])
	case "saves":
		return benchSaves(dir, args[2])
	case "renames":
		return benchRenames(dir, args[2])
	case "see":
		return benchSee(args[1], args[2], args[3])
	default:
		err = fmt.Errorf("no benchmark %q", what)
	}
	fmt.Println(took.Nanoseconds())
	return err
}

// benchStart times from the start of a command until a file in what it mounts
// has been read by cat, and ends the command.
func benchStart(file string, command []string) (time.Duration, error) {
	start := time.Now()
	cmd := exec.Command(command[0], command[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return 0, err
	}
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	_, err = bufio.NewReader(stdout).ReadString('\n') // that it is mounted
	if err == nil {
		err = exec.Command("cat", file).Run()
	}
	took := time.Since(start)
	return took, errors.Join(err, cmd.Process.Signal(syscall.SIGTERM), cmd.Wait())
}

// benchRead opens, reads and closes every file of a list, with so many readers
// at once.
func benchRead(dir, list string, readers int) (time.Duration, error) {
	file, err := os.Open(list)
	if err != nil {
		return 0, err
	}
	defer file.Close()
	var paths []string
	for lines := bufio.NewScanner(file); lines.Scan(); {
		paths = append(paths, filepath.Join(dir, lines.Text()))
	}
	work := make(chan string, len(paths))
	for _, path := range paths {
		work <- path
	}
	close(work)
	failed := make(chan error, readers)
	var all sync.WaitGroup
	start := time.Now()
	for range readers {
		all.Go(func() {
			buffer := make([]byte, 128<<10)
			for path := range work {
				if err := readWhole(path, buffer); err != nil {
					failed <- err
					return
				}
			}
		})
	}
	all.Wait()
	took := time.Since(start)
	close(failed)
	return took, <-failed
}

func readWhole(path string, buffer []byte) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	for err == nil {
		_, err = file.Read(buffer)
	}
	if !errors.Is(err, io.EOF) {
		return err
	}
	return file.Close()
}

func countAndSize(count, size string) (n, length int, err error) {
	if n, err = strconv.Atoi(count); err == nil {
		length, err = strconv.Atoi(size)
	}
	return n, length, err
}

// benchSync writes over bytes of one file and syncs them, and reports what one
// took.
func benchSync(dir, count, size string) (time.Duration, error) {
	n, length, err := countAndSize(count, size)
	if err != nil {
		return 0, err
	}
	file, err := os.CreateTemp(dir, "sync")
	if err != nil {
		return 0, err
	}
	defer os.Remove(file.Name())
	defer file.Close()
	data := make([]byte, n*length)
	if _, err = file.Write(data); err == nil {
		err = file.Sync()
	}
	start := time.Now()
	for i := 0; i < n && err == nil; i++ {
		if _, err = file.WriteAt(data[:length], int64(i*length)); err == nil {
			err = syscall.Fdatasync(int(file.Fd()))
		}
	}
	return time.Since(start) / time.Duration(n), err
}

// benchSave writes files, the same with every call. Plain is open, write, close,
// which a mount makes durable; safe is what makes a save durable and whole
// elsewhere. It reports what one took.
func benchSave(dir, count, size string, safe bool) (time.Duration, error) {
	n, length, err := countAndSize(count, size)
	if err != nil {
		return 0, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return 0, err
	}
	var took time.Duration
	for i := range n {
		text := []byte(fmt.Sprint(i, time.Now()) + strings.Repeat("some text\n", length/10))[:length]
		path := filepath.Join(dir, fmt.Sprintf("saved%d.md", i))
		start := time.Now()
		if safe {
			err = saveSafely(path, text)
		} else {
			err = os.WriteFile(path, text, 0o644)
		}
		took += time.Since(start)
		if err != nil {
			return 0, err
		}
	}
	return took / time.Duration(n), nil
}

// saveSafely replaces a file as careful programs do.
func saveSafely(path string, data []byte) error {
	file, err := os.Create(path + ".new")
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	if err = errors.Join(err, file.Sync(), file.Close(), os.Rename(path+".new", path)); err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
