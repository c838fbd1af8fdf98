package adopt

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"mneme/errkind"
	"mneme/internal/durable"
	"mneme/internal/safepath"
	"mneme/internal/xdg"
)

// DirAgent is the agent of a record of a directory that a person has named.
const DirAgent = "dir"

// recordFormat is the format of a Record.
const recordFormat = 1

// Record lists the steps of an Adoption. Each step is in the record before it is done. The
// record is enough to undo all steps.
type Record struct {
	Format     int       `json:"format"`
	Agent      string    `json:"agent"`
	WrittenFor string    `json:"written_for,omitempty"` // version of the agent whose layout mneme knows
	Project    string    `json:"project,omitempty"`
	MadeAt     time.Time `json:"made_at"`
	Finished   bool      `json:"finished"`

	URL       string   `json:"url"`
	Store     string   `json:"store"`
	StoreID   string   `json:"store_id,omitempty"`
	MadeStore bool     `json:"made_store,omitempty"`
	Imported  Imported `json:"imported"`

	Dir     string `json:"dir"`                // the agent's directory
	Inode   uint64 `json:"inode,omitempty"`    // of Dir; 0: it did not exist
	Backup  string `json:"backup,omitempty"`   // the name that Dir gets; "": it keeps its name
	Moved   bool   `json:"moved,omitempty"`    // Dir was renamed
	Mount   string `json:"mount"`              // the directory of the mount
	MadeDir string `json:"made_dir,omitempty"` // the topmost directory that was made for Mount; "": none
	Git     string `json:"git,omitempty"`      // the copy of the git directory, which the store names; "": none
	Keep    bool   `json:"keep,omitempty"`     // an Undo merges the store's changes into the directory
	Linked  bool   `json:"linked,omitempty"`   // the copy of the git directory may have commits of its own

	Setting *Setting `json:"setting,omitempty"`
}

// Imported counts the imported files.
type Imported struct {
	Files   int    `json:"files"`
	LastSeq uint64 `json:"last_seq,omitempty"` // the store's newest commit after the import
}

// name is the name of the record's file.
func (r *Record) name() string {
	of := sha256.Sum256([]byte(r.Dir + "\x00" + r.Project))
	return fmt.Sprintf("%s-%x.json", r.Agent, of[:6])
}

// Records are the records of a user. This process has locked them.
type Records struct {
	root *os.Root // nil: no records exist
	Lock *os.File
}

var errBusy = errkind.New(errkind.InUse, "another `mneme use` is at work; wait for it to end")

// OpenRecords opens the records in the user's state directory. It creates the directory
// only if changing is set.
func OpenRecords(changing bool) (*Records, error) {
	state, err := xdg.State()
	if err != nil {
		return nil, err
	}
	dir := safepath.NewRoot(filepath.Join(state, "use"))
	open := dir.Open
	if changing {
		open = func() (*os.Root, error) { return dir.Make(0o700) }
	}
	root, err := open()
	if !changing && errors.Is(err, fs.ErrNotExist) {
		return &Records{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("what `mneme use` has done: %w; $XDG_STATE_HOME names another place", err)
	}
	lock, err := safepath.OpenFile(root, "lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, errors.Join(err, root.Close())
	}
	if err := durable.TryLock(lock); err != nil {
		if errors.Is(err, syscall.EWOULDBLOCK) {
			err = errBusy
		}
		return nil, errors.Join(err, lock.Close(), root.Close())
	}
	return &Records{root, lock}, nil
}

func (u *Records) Close() error {
	if u.root == nil {
		return nil
	}
	return errors.Join(u.Lock.Close(), u.root.Close())
}

// All returns the records.
func (u *Records) All() ([]*Record, error) {
	if u.root == nil {
		return nil, nil
	}
	names, err := fs.Glob(u.root.FS(), "*.json")
	if err != nil {
		return nil, err
	}
	var all []*Record
	for _, name := range names {
		text, err := safepath.NewRoot(u.root.Name()).ReadFile(name)
		if err != nil {
			return nil, err
		}
		r := &Record{}
		if err := json.Unmarshal(text, r); err != nil {
			return nil, fmt.Errorf("%s: %w", filepath.Join(u.root.Name(), name), err)
		}
		if r.Format != recordFormat {
			return nil, fmt.Errorf("%s: format %d: %w", filepath.Join(u.root.Name(), name), r.Format, errNewerRecord)
		}
		all = append(all, r)
	}
	return all, nil
}

var errNewerRecord = errkind.New(errkind.Newer, "it was written by a newer mneme")

// save makes a record durable.
func (u *Records) save(r *Record) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err == nil {
		err = durable.WriteFile(u.root, r.name(), append(text, '\n'), 0o600)
	}
	return err
}

// remove removes the record of an adoption that is undone.
func (u *Records) remove(r *Record) error {
	if err := u.root.Remove(r.name()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return durable.SyncDir(u.root.Name())
}
