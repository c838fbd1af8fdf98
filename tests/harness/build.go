package harness

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
)

// Build builds the mneme under test below a directory: that of short-lived commands, and
// that of mounts and servers, which has the race detector where the tests ask for it. With
// it each command would take a tenth of a second of processor time before it begins; package
// cmd/mneme runs commands with it. The packages of tests share what they have built, so that
// it is linked once, and again when a source has changed.
func Build(dir string) (commands, daemon string, err error) {
	commands = filepath.Join(dir, "bin", "mneme")
	daemon = commands
	if race != "" {
		daemon = filepath.Join(dir, "race", "mneme")
		err = build(daemon, 1, raceFlags) // which need C
	}
	if err == nil {
		err = build(commands, 0, nil)
	}
	return commands, daemon, err
}

func build(path string, cgo int, flags []string) error {
	shared, err := os.UserCacheDir()
	if err != nil {
		return err
	}
	shared = filepath.Join(shared, "mneme-tests", fmt.Sprint("mneme", cgo))
	if err := os.MkdirAll(filepath.Dir(shared), 0o700); err != nil {
		return err
	}
	lock, err := os.OpenFile(shared+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return err
	}
	args := append([]string{"build", "-buildvcs=false", "-o", shared}, flags...)
	cmd := exec.Command("go", append(args, "mneme/cmd/mneme")...)
	cmd.Env = append(os.Environ(), fmt.Sprint("CGO_ENABLED=", cgo))
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build mneme: %w\n%s", err, out)
	}
	return copyProgram(shared, path)
}

func copyProgram(from, to string) error {
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	source, err := os.Open(from)
	if err != nil {
		return err
	}
	defer source.Close()
	program, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o755)
	if err != nil {
		return err
	}
	if _, err := io.Copy(program, source); err != nil {
		program.Close()
		return err
	}
	return program.Close()
}
