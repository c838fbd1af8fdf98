package use

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"mneme/cas"
	"mneme/cas/memcas"
	"mneme/fusefs"
	"mneme/memory"
	"mneme/tests/harness"
	"mneme/versionlog"
	"mneme/versionlog/memlog"
)

// slowBlob is a blob store that hands one blob out when its gate opens.
type slowBlob struct {
	cas.Store
	slow  cas.Digest
	once  sync.Once
	asked chan struct{} // closed when a reader waits for it
	gate  chan struct{}
}

func (s *slowBlob) Get(ctx context.Context, d cas.Digest) ([]byte, error) {
	if d == s.slow {
		s.once.Do(func() { close(s.asked) })
		select {
		case <-s.gate:
		case <-ctx.Done():
		}
	}
	return s.Store.Get(ctx, d)
}

// TestSlowReadHoldsNothingUp changes files while another that has changed is
// still being fetched for a read: the kernel holds its pages, and takes in what
// it is told of the other files all the same.
func TestSlowReadHoldsNothingUp(t *testing.T) {
	for name, look := range map[string]string{
		"read-write": `exec 3<>g && read -r line <&3 && exec 3<&-`,
		"read-only":  `read -r line <g`,
	} {
		t.Run(name, func(t *testing.T) {
			e := harness.NewEnv(t)
			ctx := t.Context()
			check := func(err error) {
				t.Helper()
				if err != nil {
					t.Fatal(err)
				}
			}
			blobs := &slowBlob{Store: memcas.New(), slow: cas.Sum([]byte("slow")), asked: make(chan struct{}), gate: make(chan struct{})}
			lib := memory.NewLibrary(memlog.New(nil), func(string) (cas.Store, error) { return blobs, nil })
			info, err := lib.CreateStore(ctx, "notes", nil)
			check(err)
			author := &memory.Author{Actor: versionlog.Actor{Kind: versionlog.ActorUser, ID: "other"}}
			other, err := lib.Open(ctx, info.ID, author)
			check(err)
			write := func(path, text string) {
				t.Helper()
				_, err := other.Write(ctx, path, []byte(text), versionlog.ExpectAny())
				check(err)
			}
			write("/slow", "slow")
			write("/g", "old\n")
			if name == "read-only" {
				author = nil
			}
			mine, err := lib.Open(ctx, info.ID, author)
			check(err)
			at := filepath.Join(e.Dir, "mnt")
			check(os.Mkdir(at, 0o755))
			server, err := fusefs.Mount(ctx, at, []*memory.Store{mine}, nil)
			check(err)
			sh := func(script, want string) {
				t.Helper()
				r := e.Run(t, harness.ScriptPatience, "", func() { _ = syscall.Unmount(at, syscall.MNT_DETACH) }, "bash", "-c", "cd "+at+"/notes && { "+script+"; }")
				if r.Code != 0 || r.Stdout != want {
					t.Errorf("%s: want %q, got %v", script, want, r)
				}
			}
			sh("cat g", "old\n")
			read := make(chan struct{})
			go func() {
				defer close(read)
				sh("head -c 4 slow", "slow")
			}()
			<-blobs.asked
			write("/slow", "not so slow")
			write("/g", "new\n")
			sh(`for i in $(seq 200); do `+look+` || exit; [ "$line" = new ] && break; sleep .02; done; echo $line`, "new\n")
			close(blobs.gate)
			<-read
			sh("cat slow g", "not so slownew\n")
			check(server.Close())
		})
	}
}
