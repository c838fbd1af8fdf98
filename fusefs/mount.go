package fusefs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/hanwen/go-fuse/v2/fuse"

	"mneme/internal/fusedev"
	"mneme/internal/handover"
	"mneme/memory"
)

// Name is what file systems of mounts are called.
const Name = "mneme"

// Type is the file system type of mounts in /proc/self/mountinfo. The source
// there is "mneme:" and the process id of the daemon or, if it has one, its keeper.
const Type = "fuse." + Name

// maxBackground is how many asynchronous requests the kernel may have under way.
const maxBackground = 256

// Server is a mounted file system. Its methods may be called at once from many
// goroutines.
type Server struct {
	fs         *fileSystem
	meter      *meter
	server     *fusedev.Server
	dir        string
	attachment fusedev.Attachment
	cancel     context.CancelFunc

	journal *handover.Journal // nil: the mount has no keeper
	leaving atomic.Bool       // another process takes over

	answered chan struct{} // closed when the requests that came have been answered
	done     chan struct{} // closed when everything has ended
	close    func() error
	forget   func() // makes the kernel forget everything, once
}

func newServer(fs *fileSystem, meter *meter, server *fusedev.Server, dir string, cancel context.CancelFunc) *Server {
	return &Server{fs: fs, meter: meter, server: server, dir: dir, cancel: cancel, answered: make(chan struct{}), done: make(chan struct{})}
}

// Mount mounts stores at dir, an existing directory, each below the name of its slug or, with
// Options.Flat, the only one as dir itself; a store opened read-only, or archived, is read-only
// in the mount. When it returns, the mount is ready for use, though the stores' contents are
// still loading: a request for something that has not loaded yet asks the log. The mount stays
// until Close, or until it is unmounted. ctx bounds this call only.
//
// As root it mounts directly and lets other users in, with the permissions
// that files show; as another user it needs fusermount3.
func Mount(ctx context.Context, dir string, stores []*memory.Store, opts *Options) (*Server, error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	if o.On == nil {
		real, err := realDir(dir) // as the kernel will name it
		if err != nil {
			return nil, err
		}
		dir = real
	}
	if err := o.checkFlat(stores); err != nil {
		return nil, err
	}
	life, cancel := context.WithCancel(context.WithoutCancel(ctx))
	fs := newFileSystem(life, stores, o)
	close(fs.allKept)
	if err := fs.begin(ctx); err != nil {
		cancel()
		return nil, err
	}
	for _, s := range fs.stores {
		fs.tasks.Go(func() { s.load(life) })
	}
	meter := &meter{FileSystem: newFront(fs)}
	server, err := fusedev.Mount(meter, dir, o.On, mountOptions(fs))
	if err != nil {
		cancel()
		fs.tasks.Wait()
		return nil, fmt.Errorf("mount at %s: %w", dir, err)
	}
	m := newServer(fs, meter, server, dir, cancel)
	err = m.attach()
	if err == nil && o.Keeper != 0 {
		if err = m.hand(); err != nil {
			err = fmt.Errorf("with a keeper: %w", err)
		}
	}
	if err != nil {
		cancel()
		fs.tasks.Wait()
		return nil, errors.Join(fmt.Errorf("mount at %s: %w", dir, err), m.attachment.Detach(), server.Close())
	}
	m.start()
	return m, nil
}

// checkFlat makes sure that a flat mount is of one store.
func (o *Options) checkFlat(stores []*memory.Store) error {
	if o.Flat && len(stores) != 1 {
		return fmt.Errorf("a flat mount has one store, not %d", len(stores))
	}
	return nil
}

// begin prepares the stores of a mount.
func (fs *fileSystem) begin(ctx context.Context) error {
	for _, s := range fs.stores {
		s.recover(ctx)
		if err := s.begin(ctx); err != nil {
			return fmt.Errorf("mount store %s: %w", s.slug(), err)
		}
	}
	return nil
}

// start lets requests be answered.
func (m *Server) start() {
	if before := m.fs.opts.BeforeServing; before != nil {
		before()
	}
	if m.fs.opts.Notifier != nil {
		m.server.UseNotifier(m.fs.opts.Notifier, m.attachment, m.journal != nil)
	}
	m.fs.ahead.Connect(kernel{m.server})
	m.close = sync.OnceValue(m.unmount)
	m.forget = sync.OnceFunc(m.forgetAll)
	m.fs.calls.told = true
	m.fs.tasks.Go(m.fs.followAppends)
	m.fs.tasks.Go(m.fs.returnMemory)
	m.fs.returning.follower.Start()
	go m.serve()
}

func realDir(dir string) (string, error) {
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return "", err
	}
	return filepath.Abs(dir)
}

// attach finds out where the kernel has the mount. One that is taken over may have
// left the directory tree, while a container still has it.
func (m *Server) attach() (err error) {
	o := mountOptions(m.fs)
	if m.attachment, err = fusedev.Attached(m.dir, o.FsName, o.Name); err != nil {
		return err
	}
	m.fs.openFiles.Mounted(m.attachment.Device())
	return nil
}

// Source is what the kernel says of the source of a mount: which process has it, and whether it is
// flat. A part of such a mount that is bound to another place is no store's directory.
func Source(pid int, flat bool) string {
	if flat {
		return fmt.Sprintf("mneme:%d:flat", pid)
	}
	return fmt.Sprintf("mneme:%d", pid)
}

func mountOptions(fs *fileSystem) *fuse.MountOptions {
	o := &fuse.MountOptions{
		FsName:        Source(cmp.Or(fs.opts.Keeper, os.Getpid()), fs.opts.Flat),
		Name:          Name,
		Options:       []string{"default_permissions"},
		MaxBackground: maxBackground,
		// Truncation at open is one request with it, and the kernel does not ask
		// for security.capability before every write.
		ExtraCapabilities: fuse.CAP_ATOMIC_O_TRUNC | fuse.CAP_HANDLE_KILLPRIV_V2,
		// A request that panics may hold the lock. Ending is better than hanging: acknowledged
		// bytes are safe, and the next mount clears this one.
		PanicHandler: func(v any) fuse.Status { panic(v) },
		Logger:       slog.NewLogLogger(fs.log.Handler(), slog.LevelWarn),
	}
	if os.Geteuid() == 0 {
		o.AllowOther = true
	}
	if fs.opts.Keeper == 0 { // else programs wait for the next process, however long it takes
		o.ExtraCapabilities |= fuse.CAP_REQUEST_TIMEOUT
	}
	if !fs.opts.Exec {
		o.Options = append(o.Options, "noexec")
	}
	if fs.noOpen {
		o.Options = append(o.Options, "ro")
		// With it the mount would not hear of a truncating open.
		o.ExtraCapabilities &^= fuse.CAP_ATOMIC_O_TRUNC
	}
	return o
}

// serve runs until the connection has ended, by the kernel or by unmount, then
// ends everything.
func (m *Server) serve() {
	defer close(m.done)
	var work sync.WaitGroup
	for _, s := range m.fs.stores {
		work.Go(func() { s.follow(m.fs.ctx) })
		work.Go(s.expireKept)
		work.Go(func() { s.missed(m.fs.ctx) })
	}
	m.fs.notify.Run(kernel{m.server})
	m.server.Serve()
	close(m.answered)
	if m.leaving.Load() {
		select {} // the process ends, and what it holds is another's
	}
	m.forget()
	m.fs.commitAll()
	m.fs.endSpools()
	if err := m.server.Close(); err != nil {
		m.fs.log.Warn("close the FUSE device", "err", err)
	}
	m.cancel()
	m.fs.ahead.Close()
	m.fs.notify.Close()
	work.Wait()
	m.fs.awaitTasks()
}

// awaitTasks returns when nothing works in the background any longer.
func (fs *fileSystem) awaitTasks() {
	fs.tasks.Wait()
	fs.returning.follower.Close()
	for _, s := range fs.stores {
		s.session.Close()
	}
}

// Wait returns when the file system is no longer mounted and everything that
// was written has been committed, or given up with an entry in the log.
func (m *Server) Wait() { <-m.done }

// Close commits everything that was written, and ends the mount for all processes: no process
// reads or writes through it any longer, whether it has a file of it open or mapped, has its
// working directory in it, or sees it in another mount namespace. Bytes that cannot be committed
// within three seconds are kept as a conflict. Close returns within five; with ErrHangs the mount
// has ended, but the stores are still in use. Calling it again returns the same.
func (m *Server) Close() error { return m.close() }

// ErrHangs says that a commit, or a request whose answer nothing waits for any longer, continues
// until the process ends.
var ErrHangs = errors.New("the stores or their disk do not answer; what was written last may not be saved")
