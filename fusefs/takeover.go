package fusefs

import (
	"context"
	"errors"
	"fmt"
	"time"

	"mneme/internal/fusedev"
	"mneme/internal/handover"
	"mneme/memory"
	"mneme/versionlog"
)

// To take a mount over is to mount the stores anew, where the kernel has been told
// something before. So the tree is made as by any mount, of what the log has; then
// each node that the kernel knows gets its number back, in this order:
//
//  1. A directory, or a file that has the version that it had, goes on.
//  2. Where the log has another version by now, the node stands for the one that its
//     readers have, and the new one takes its place, as if the change had come while
//     the mount was served (tree.SupersedeLocked).
//  3. What has no place any more is there for those who have it open.
//
// Then the kernel is told of what was committed since it last was. Who was writing
// what is in no version gets EIO from then on, and the text is kept as a conflict.

// Journal is where the mount notes what another process needs to go on, if the mount
// has a keeper.
func (m *Server) Journal() *handover.Journal { return m.journal }

// Device is the connection to the kernel, for the keeper.
func (m *Server) Device() (fd int) { return m.server.Device() }

// hand makes the journal of a mount that is about to be served for the first time.
func (m *Server) hand() error {
	if err := m.server.CanResume(); err != nil {
		return err
	}
	journal, err := handover.New()
	if err != nil {
		return err
	}
	return m.noteIn(journal, m.server.Greeting(), nil)
}

// noteIn has the mount noted in a journal from now on, see newHanding.
func (m *Server) noteIn(journal *handover.Journal, greeting []byte, applied []uint64) error {
	m.fs.mu.Lock()
	defer m.fs.mu.Unlock()
	m.journal = journal
	m.fs.handing = newHanding(m.fs, journal, greeting, applied)
	for _, n := range m.fs.nodes {
		if st := stageOf(n); st != nil {
			m.fs.handing.stagedLocked(n, st)
		}
	}
	m.server.BeforeAnswers(m.fs.noteAnswer)
	return m.fs.handing.rewriteLocked()
}

// noteAnswer is called before each answer.
func (fs *fileSystem) noteAnswer() {
	fs.mu.RLock()
	h := fs.handing
	fs.mu.RUnlock()
	if h != nil {
		h.note()
	}
}

// TakeOver goes on with a mount at dir that another process has served until its
// end, with the same stores, in the same order, and the same options. device and
// journal are the mount's from then on. It returns when the mount is served again.
func TakeOver(ctx context.Context, dir string, device int, journal *handover.Journal, stores []*memory.Store, opts *Options) (*Server, error) {
	o := *opts
	notes, err := journal.Notes()
	if err != nil {
		return nil, err
	}
	in, err := readNotes(notes)
	if err != nil {
		return nil, err
	}
	if len(in.state.Applied) != len(stores) || len(in.state.Shown) != len(stores) {
		return nil, fmt.Errorf("the mount has %d stores, not %d", len(in.state.Applied), len(stores))
	}
	if in.state.Flat != o.Flat {
		return nil, fmt.Errorf("the mount is flat: %t, and is to be: %t", in.state.Flat, o.Flat)
	}
	life, cancel := context.WithCancel(context.WithoutCancel(ctx))
	fs := newFileSystemFrom(life, stores, o, in.state.NextID)
	if err := fs.begin(ctx); err != nil {
		cancel()
		return nil, err
	}
	for _, s := range fs.stores {
		s.load(ctx) // all of it: what is not there now is gone
	}
	front := newFront(fs)
	front.adopt(in)
	missed, err := fs.missed(ctx, in)
	if err != nil {
		cancel()
		return nil, err
	}
	fs.keepAll(fs.adopt(in, missed))
	meter := &meter{FileSystem: front}
	server, err := fusedev.Resume(meter, device, in.greeting, mountOptions(fs))
	if err != nil {
		cancel()
		return nil, err
	}
	m := newServer(fs, meter, server, dir, cancel)
	if err := errors.Join(m.attach(), m.noteIn(journal, in.greeting, in.state.Applied)); err != nil {
		cancel()
		return nil, errors.Join(err, server.Close())
	}
	m.start()
	return m, nil
}

// Leave ends the service of a mount that has a keeper, for another process to take
// it over. What was asked until then is answered, if that does not take long.
func (m *Server) Leave() {
	m.leaving.Store(true)
	m.server.Leave()
	endsWithin(leavePatience, m.server.AwaitAnswers)
}

// leavePatience is how long who waits for an answer waits for this process; then the
// next one answers.
const leavePatience = time.Second

// missed returns the commits, by store, that the kernel may not have been told of.
func (fs *fileSystem) missed(ctx context.Context, in *inherited) ([][]*versionlog.Commit, error) {
	missed := make([][]*versionlog.Commit, len(fs.stores))
	for i, s := range fs.stores {
		for c, err := range s.memory.Commits(ctx, in.state.Applied[i]) {
			if err != nil {
				return nil, fmt.Errorf("what has happened to store %s: %w", s.slug(), err)
			}
			if c.Seq > s.tree.Shown().Seq {
				break // which the follower brings
			}
			missed[i] = append(missed[i], c)
		}
	}
	return missed, nil
}
