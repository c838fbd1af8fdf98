package cache

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"mneme/internal/safepath"
)

const (
	// ledgerName is the file that holds the number of bytes on disk, and whose
	// lock is that of the directory.
	ledgerName = "usage"
	// ledgerWait bounds the wait for another process that fills the tier.
	ledgerWait = 250 * time.Millisecond
	ledgerPoll = time.Millisecond
)

// errBusy says that another process holds the ledger for longer than is sane.
var errBusy = errors.New("disk tier is busy")

// ledger is the locked record of the space that the files of a directory take.
// The kernel gives the lock back when its holder dies.
type ledger struct {
	root *os.Root // the directory
	f    *os.File
}

// lockLedger waits for the ledger of a directory.
func lockLedger(root *os.Root) (*ledger, error) {
	for deadline := time.Now().Add(ledgerWait); ; time.Sleep(ledgerPoll) {
		l, err := tryLock(root)
		if l != nil || err != nil {
			return l, err
		}
		if time.Now().After(deadline) {
			return nil, errBusy
		}
	}
}

// tryLock returns nil when the ledger cannot be had at the moment.
func tryLock(root *os.Root) (*ledger, error) {
	f, err := safepath.OpenFile(root, ledgerName, os.O_RDWR|os.O_CREATE, filePerm)
	if err != nil {
		return nil, err
	}
	locked, err := lockFile(f, root)
	if locked {
		return &ledger{root, f}, nil
	}
	_ = f.Close()
	return nil, err
}

// lockFile locks the ledger f of a directory. It returns false when another process holds
// the lock, and when f has been removed: then its lock excludes no other process.
func lockFile(f *os.File, root *os.Root) (bool, error) {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) || errors.Is(err, syscall.EINTR) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	mine, err := f.Stat()
	if err != nil {
		return false, err
	}
	named, err := root.Stat(ledgerName)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil && os.SameFile(mine, named), err
}

// used returns the bytes on disk, and false when they are not known: then they must be
// counted.
func (l *ledger) used() (int64, bool) { return readUsage(l.root) }

// readUsage reads the ledger without its lock. A number that another boot of the
// machine wrote may be older than the files, for nothing here is synced.
func readUsage(root *os.Root) (int64, bool) {
	data, err := root.ReadFile(ledgerName)
	if err != nil {
		return 0, false
	}
	var used int64
	var boot string
	if _, err := fmt.Sscanf(string(data), "%d %s\n", &used, &boot); err != nil {
		return 0, false
	}
	return used, used >= 0 && boot == bootID()
}

// record notes the bytes on disk. The line has a fixed length and is overwritten
// in place, which needs no space.
func (l *ledger) record(used int64) error {
	_, err := l.f.WriteAt(fmt.Appendf(nil, "%020d %s\n", used, bootID()), 0)
	return err
}

// unlock gives the ledger up: closing the file drops its lock.
func (l *ledger) unlock() { _ = l.f.Close() }

// bootID names this boot of the machine.
var bootID = sync.OnceValue(func() string {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(id))
})
