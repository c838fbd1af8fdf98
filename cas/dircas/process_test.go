package dircas_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"mneme/cas"
	"mneme/cas/dircas"
)

// childEnv makes the test binary a process that puts blobs into the directory
// that it names.
const childEnv = "MNEME_DIRCAS_CHILD"

func TestMain(m *testing.M) {
	if dir := os.Getenv(childEnv); dir != "" {
		if err := putForEver(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}

// putForEver puts one blob after the other and prints the digest of each that
// was acknowledged, until it is killed. All children put the same blobs.
func putForEver(dir string) error {
	s, err := dircas.Open(dir, nil)
	if err != nil {
		return err
	}
	for i := 0; ; i++ {
		data := strings.Repeat(fmt.Sprintf("blob %d\n", i), 1+i*97%4096)
		d, err := s.Put(context.Background(), []byte(data))
		if err != nil {
			return err
		}
		if _, err := fmt.Println(d); err != nil {
			return err
		}
	}
}

// TestKilledProcesses kills processes that put the same blobs into one
// directory at once. Every blob that was acknowledged is there and good, and
// nothing else that is there is bad.
func TestKilledProcesses(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "blobs")
	acknowledged := make(map[cas.Digest]bool)
	for round := range 3 {
		var mu sync.Mutex // guards acknowledged
		var wg sync.WaitGroup
		for child := range 3 {
			wg.Go(func() {
				digests, err := runAndKill(dir, 10+20*round+7*child)
				if err != nil {
					t.Errorf("child: %v", err)
				}
				mu.Lock()
				defer mu.Unlock()
				for _, d := range digests {
					acknowledged[d] = true
				}
			})
		}
		wg.Wait()
	}
	s := open(t, dir)
	for d := range acknowledged {
		if _, err := s.Get(t.Context(), d); err != nil {
			t.Error(err)
		}
	}
	for d, err := range s.List(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Get(t.Context(), d); err != nil {
			t.Error(err)
		}
	}
	t.Logf("%d blobs acknowledged", len(acknowledged))
}

// runAndKill runs a child, kills it after it has acknowledged n blobs, and
// returns all that it acknowledged before it was dead.
func runAndKill(dir string, n int) ([]cas.Digest, error) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	digests, err := readDigests(bufio.NewReader(out), n, cmd.Process.Kill)
	if waitErr := cmd.Wait(); err == nil && waitErr.Error() != "signal: killed" {
		err = fmt.Errorf("ended with %w", waitErr)
	}
	return digests, err
}

// readDigests reads the lines of r to its end, the last of which may be cut
// off, and calls kill after n of them.
func readDigests(r *bufio.Reader, n int, kill func() error) ([]cas.Digest, error) {
	var digests []cas.Digest
	for {
		line, err := r.ReadString('\n')
		if err == io.EOF {
			return digests, nil
		}
		if err != nil {
			return digests, err
		}
		d, err := cas.ParseDigest(strings.TrimSuffix(line, "\n"))
		if err != nil {
			return digests, err
		}
		if digests = append(digests, d); len(digests) == n {
			if err := kill(); err != nil {
				return digests, err
			}
		}
	}
}
