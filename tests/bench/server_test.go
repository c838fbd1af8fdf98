package bench

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"mneme/memory"
	"mneme/tests/harness"
	"mneme/versionlog"
)

//go:embed testdata/server.md
var serverPage string

// BenchmarkServer measures `mneme serve` and writes docs/BENCHMARKS-SERVER.md.
func BenchmarkServer(b *testing.B) {
	for range b.N {
		r := newReport(b)
		s := r.served(r.either(100_000, 2000))
		s.api()
		s.atOnce()
		s.updates()
		s.gateway()
		r.write("BENCHMARKS-SERVER.md", serverPage)
		b.ReportMetric(0, "ns/op")
	}
}

// served is a server with a store, and a process beside it that answers without one.
type served struct {
	*report
	env      *harness.Env
	lib      *harness.Embedded
	store    *memory.Store
	memories []versionlog.Version
	pid      int
	url      string // of the server
	host     string
	secret   string
	bare     string   // host of the bare handler
	sums     []string // of the texts that the updaters have left in memories
}

// served makes a store of so many memories, and a server of it.
func (r *report) served(memories int) *served {
	s := &served{report: r, env: harness.NewEnv(r.B)}
	s.env.Store("notes") // makes the library
	lib, err := harness.OpenEmbedded(r.Context(), s.env.Stores)
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() { _ = lib.Close() })
	s.lib = lib
	s.store, s.memories = s.filled("notes", memories)
	r.values["memories"] = fmt.Sprint(memories)
	var key struct{ Secret string }
	if err := json.Unmarshal([]byte(s.env.Must(r.B, "key", "create", "bench", "--admin", "--json")), &key); err != nil {
		r.Fatal(err)
	}
	s.secret = key.Secret
	var said struct{ URLs []string }
	var line string
	s.pid, line = s.start(harness.Binary, "", "serve", "--listen=127.0.0.1:0", "--json")
	if err := json.Unmarshal([]byte(line), &said); err != nil {
		r.Fatalf("%v: %s", err, line)
	}
	s.url = said.URLs[0]
	s.host = strings.TrimPrefix(s.url, "http://")
	self, err := os.Executable()
	if err != nil {
		r.Fatal(err)
	}
	_, line = s.start(self, "handler")
	s.bare = strings.TrimSpace(line)
	return s
}

// filled makes a store of so many memories.
func (s *served) filled(name string, memories int) (st *memory.Store, all []versionlog.Version) {
	s.env.Store(name)
	st, err := s.lib.OpenNamed(s.Context(), name)
	if err != nil {
		s.Fatal(err)
	}
	for from := 0; from < memories; from += 10_000 {
		var changes []memory.Change
		for i := from; i < min(memories, from+10_000); i++ {
			changes = append(changes, memory.Change{
				Action: versionlog.Put, Path: fmt.Sprintf("/topic-%03d/note-%05d.md", i/500, i),
				Content: fmt.Appendf(nil, "note %d\n%01000d\n", i, i), Expect: versionlog.ExpectAbsent(),
			})
		}
		c, err := st.Batch(s.Context(), changes, nil)
		if err != nil {
			s.Fatal(err)
		}
		all = append(all, c.Versions...)
	}
	return st, all
}

// start starts a process, and returns it and its first line. It ends with the benchmark.
func (s *served) start(program, role string, args ...string) (pid int, line string) {
	cmd := exec.Command(program, args...)
	cmd.Env = append(s.env.Environ(), harness.ChildVariable+"="+role)
	log, err := os.Create(filepath.Join(s.env.Dir, "log-"+role))
	if err != nil {
		s.Fatal(err)
	}
	defer log.Close()
	cmd.Stderr = log
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { _ = cmd.Process.Signal(syscall.SIGTERM); _ = cmd.Wait() })
	if line, err = bufio.NewReader(out).ReadString('\n'); err != nil {
		s.Fatal(err)
	}
	return cmd.Process.Pid, line
}

// handlerChild answers each request with so many bytes as the path says, until it is killed.
func handlerChild([]string) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(l.Addr())
	return http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		n := 0
		_, _ = fmt.Sscanf(r.URL.Path, "/%d", &n)
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(bytes.Repeat([]byte("x"), n))
	}))
}

// connection is one to a server, of a client that does no more than it must.
type connection struct {
	net.Conn
	in            *bufio.Reader
	authorization string // a line of the header
}

func (s *served) connect(host string) *connection {
	c, err := net.Dial("tcp", host)
	if err != nil {
		s.Fatal(err)
	}
	authorization := ""
	if host == s.host {
		authorization = "Authorization: Bearer " + s.secret + "\r\n"
	}
	return &connection{c, bufio.NewReader(c), authorization}
}

// ask makes a request and returns the body of its answer.
func (c *connection) ask(method, path, body string) ([]byte, error) {
	_, err := fmt.Fprintf(c, "%s %s HTTP/1.1\r\nHost: localhost\r\n%sContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", method, path, c.authorization, len(body), body)
	if err != nil {
		return nil, err
	}
	a, err := http.ReadResponse(c.in, nil)
	if err != nil {
		return nil, err
	}
	defer a.Body.Close()
	data, err := io.ReadAll(a.Body)
	if err == nil && a.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s %s: %s %s", method, path, a.Status, data)
	}
	return data, err
}

// timed times a call n times, in milliseconds.
func (s *served) timed(n int, do func(i int) error) (took series) {
	for i := range n {
		began := time.Now()
		if err := do(i); err != nil {
			s.Fatal(err)
		}
		took = append(took, float64(time.Since(began).Nanoseconds())/1e6)
	}
	return took
}

const memoriesOf = "/v1/memory_stores/%s/memories"

// api measures one request after another.
func (s *served) api() {
	client, bare := s.connect(s.host), s.connect(s.bare)
	defer client.Close()
	defer bare.Close()
	memories := fmt.Sprintf(memoriesOf, s.store.Info().ID)
	file, err := os.Create(filepath.Join(s.env.Dir, "fsync"))
	if err != nil {
		s.Fatal(err)
	}
	defer file.Close()
	n := s.either(1000, 50)
	fsync := s.timed(n, func(int) error {
		if _, err := file.Write(make([]byte, 4096)); err != nil {
			return err
		}
		return file.Sync()
	})
	s.values["fsync"] = fsync.withSpread()
	t := s.table("api", "request", "bare handler, ms", "library, ms", "mneme, ms", "to the library", "target", "met")
	row := func(name string, size int, library, own func(i int) error, limit float64) {
		for _, one := range []func(int) error{library, own} {
			s.timed(n/10, one) // warm
		}
		handler := s.timed(n, func(int) error { _, err := bare.ask("POST", fmt.Sprintf("/%d", size), "{}"); return err })
		direct, over := s.timed(n, library), s.timed(n, own)
		verdict := []string{"", ""}
		if limit > 0 {
			verdict = s.goal(name, over.median(), over.at(0.1), floor{}, limit, " ms")
		}
		t.row(append([]string{name, figure(handler.median()), figure(direct.median()), fmt.Sprintf("%s, p99 %s", figure(over.median()), figure(over.at(0.99))), figure(over.median() / direct.median())}, verdict...)...)
	}
	of := func(i int) versionlog.Version { return s.memories[i*7919%len(s.memories)] }
	row("retrieve", 1400, func(i int) error {
		v, err := s.store.Newest(s.Context(), of(i).MemoryID)
		if err == nil {
			_, err = s.store.Content(s.Context(), v)
		}
		return err
	}, func(i int) error { _, err := client.ask("GET", memories+"/"+of(i).MemoryID, ""); return err }, 0)

	direct, v := s.memories[0], s.memories[1]
	sum := v.Digest.String()
	row("update with a precondition", 500, func(i int) error {
		var err error
		direct, err = s.store.Write(s.Context(), direct.Path, fmt.Appendf(nil, "direct %d\n", i), versionlog.ExpectVersion(direct.ID))
		return err
	}, func(i int) error {
		text := fmt.Sprintf("update %d", i)
		_, err := client.ask("POST", memories+"/"+v.MemoryID, fmt.Sprintf(`{"content":%q,"precondition":{"type":"content_sha256","content_sha256":%q}}`, text, sum))
		sum = fmt.Sprintf("%x", sha256.Sum256([]byte(text)))
		return err
	}, 2+fsync.median())

	row("list of 100, deep in the store", 45_000, func(i int) error {
		n := 0
		for _, err := range s.store.List(s.Context(), "/", false, of(i).Path) {
			if n++; err != nil || n > 100 {
				return err
			}
		}
		return nil
	}, func(i int) error {
		_, err := client.ask("GET", memories+"?limit=100&path_prefix="+of(i).Path[:len("/topic-000/")], "")
		return err
	}, 3)
	row("list of 100, the first of the store", 45_000, func(i int) error {
		n := 0
		for _, err := range s.store.List(s.Context(), "/", false, "") {
			if n++; err != nil || n > 100 {
				return err
			}
		}
		return nil
	}, func(i int) error { _, err := client.ask("GET", memories+"?limit=100", ""); return err }, 3)
}

// atOnce measures 16 clients that retrieve memories.
func (s *served) atOnce() {
	const clients = 16
	memories := fmt.Sprintf(memoriesOf, s.store.Info().ID)
	run := func(host string, path func(i int) string) series {
		var rates series
		for range s.rounds {
			var all errgroup.Group
			each := s.either(3000, 50)
			began := time.Now()
			for n := range clients {
				all.Go(func() error {
					c := s.connect(host)
					defer c.Close()
					for i := range each {
						if _, err := c.ask("GET", path(n*each+i), ""); err != nil {
							return err
						}
					}
					return nil
				})
			}
			if err := all.Wait(); err != nil {
				s.Fatal(err)
			}
			rates = append(rates, float64(time.Since(began).Microseconds())/float64(clients*each))
		}
		return rates
	}
	before := s.ticks()
	own := run(s.host, func(i int) string { return memories + "/" + s.memories[i*7919%len(s.memories)].MemoryID })
	cpu := (s.ticks() - before) * 10_000 / float64(s.rounds*clients*s.either(3000, 50))
	bare := run(s.bare, func(int) string { return "/1400" })
	t := s.table("atOnce", "request", "bare handler, µs for each", "mneme, µs for each", "mneme, each second", "processor time of the server, µs for each", "ratio", "target", "met")
	t.row(append([]string{"retrieve", bare.withSpread(), own.withSpread(), fmt.Sprintf("%.0f", 1e6/own.median()), figure(cpu), figure(own.median() / bare.median())},
		s.goal("retrieve with 16 clients", own.median(), own.least(), floor{}, 125, " µs")...)...)
}
