package main

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
	"mneme/internal/agentdirs"
	"mneme/internal/durable"
	"mneme/internal/safepath"
	"mneme/internal/xdg"
)

// dirAgent is the agent of a record of a directory that a person has named.
const dirAgent = "dir"

// useFormat is the format of a useRecord.
const useFormat = 1

// useRecord says what `mneme use` has done, or is about to do: each thing is in it before
// it is done. It is all that is needed to undo it.
type useRecord struct {
	Format     int       `json:"format"`
	Agent      string    `json:"agent"`
	WrittenFor string    `json:"written_for,omitempty"` // version of the agent whose layout mneme knows
	Project    string    `json:"project,omitempty"`
	MadeAt     time.Time `json:"made_at"`
	Finished   bool      `json:"finished"`

	URL       string      `json:"url"`
	Store     string      `json:"store"`
	StoreID   string      `json:"store_id,omitempty"`
	MadeStore bool        `json:"made_store,omitempty"`
	Imported  useImported `json:"imported"`

	Dir     string `json:"dir"`                // of the agent
	Inode   uint64 `json:"inode,omitempty"`    // of that; 0: it was not there
	Backup  string `json:"backup,omitempty"`   // what it is renamed to; "": it stays
	Moved   bool   `json:"moved,omitempty"`    // it was
	Mount   string `json:"mount"`              // where the store is mounted
	MadeDir string `json:"made_dir,omitempty"` // the topmost directory that was made for that; "": all were there
	Git     string `json:"git,omitempty"`      // where the git directory is copied to, which the store names; "": there is none
	Keep    bool   `json:"keep,omitempty"`     // what was changed since is being brought into the directory
	Linked  bool   `json:"linked,omitempty"`   // there may be commits in that which nothing else has

	Setting *useSetting `json:"setting,omitempty"`
}

// useImported says what was imported.
type useImported struct {
	Files   int    `json:"files"`
	LastSeq uint64 `json:"last_seq,omitempty"` // of the store, when all was
}

// useSetting is a setting of the agent that is changed.
type useSetting struct {
	File    string         `json:"file"`
	Key     []string       `json:"key"`
	After   string         `json:"after"`
	Before  string         `json:"before,omitempty"`
	Set     bool           `json:"set"`                // it had that value
	HadFile bool           `json:"had_file"`           // there was one
	MadeDir string         `json:"made_dir,omitempty"` // the topmost directory that was made for it; "": all were there
	Edit    agentdirs.Edit `json:"edit"`
}

// errUndoHasWay says that what others have made since would be lost.
var errUndoHasWay = errkind.New(errkind.Exists, "something is in the way of undoing it")

// name is the name of the record's file.
func (r *useRecord) name() string {
	of := sha256.Sum256([]byte(r.Dir + "\x00" + r.Project))
	return fmt.Sprintf("%s-%x.json", r.Agent, of[:6])
}

// useRecords are the records of a user, which this process alone reads and changes.
type useRecords struct {
	root *os.Root // nil: there are none
	lock *os.File
}

var errUseBusy = errkind.New(errkind.InUse, "another `mneme use` is at work; wait for it to end")

// openUseRecords opens the records, in the user's state directory. That is made only to change
// something; without it there are none.
func openUseRecords(changing bool) (*useRecords, error) {
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
		return &useRecords{}, nil
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
			err = errUseBusy
		}
		return nil, errors.Join(err, lock.Close(), root.Close())
	}
	return &useRecords{root, lock}, nil
}

func (u *useRecords) Close() error {
	if u.root == nil {
		return nil
	}
	return errors.Join(u.lock.Close(), u.root.Close())
}

// all returns the records.
func (u *useRecords) all() ([]*useRecord, error) {
	if u.root == nil {
		return nil, nil
	}
	names, err := fs.Glob(u.root.FS(), "*.json")
	if err != nil {
		return nil, err
	}
	var all []*useRecord
	for _, name := range names {
		text, err := safepath.NewRoot(u.root.Name()).ReadFile(name)
		if err != nil {
			return nil, err
		}
		r := &useRecord{}
		if err := json.Unmarshal(text, r); err != nil {
			return nil, fmt.Errorf("%s: %w", filepath.Join(u.root.Name(), name), err)
		}
		if r.Format != useFormat {
			return nil, fmt.Errorf("%s: format %d: %w", filepath.Join(u.root.Name(), name), r.Format, errNewerRecord)
		}
		all = append(all, r)
	}
	return all, nil
}

var errNewerRecord = errkind.New(errkind.Newer, "it was written by a newer mneme")

// save makes a record durable.
func (u *useRecords) save(r *useRecord) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err == nil {
		err = durable.WriteFile(u.root, r.name(), append(text, '\n'), 0o600)
	}
	return err
}

// remove removes the record of what is undone.
func (u *useRecords) remove(r *useRecord) error {
	if err := u.root.Remove(r.name()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return durable.SyncDir(u.root.Name())
}
