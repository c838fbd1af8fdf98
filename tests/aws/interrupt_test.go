package aws

import (
	"bytes"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"mneme/internal/testing/awstest"
	"mneme/internal/testing/fault"
	"mneme/memory"
	"mneme/tests/harness"
	"mneme/versionlog"
)

// network is what lies between the daemons of a test and a service.
type network struct {
	*fault.Transport
	url string
}

// between puts a network before a service. A request that reads the names of a store, page by
// page, is of the site "heads".
func between(t *testing.T, service string) *network {
	t.Helper()
	target, err := url.Parse(service)
	if err != nil {
		t.Fatal(err)
	}
	site := func(req *http.Request, body []byte) string {
		if name := fault.Site(req); name != "dynamodb Query" || !bytes.Contains(body, []byte(`":from":{"S":"/`)) {
			return name
		}
		return "heads"
	}
	n := &network{Transport: fault.New(&fault.Options{Site: site})}
	server := httptest.NewServer(&httputil.ReverseProxy{
		Transport: n,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.Host = r.In.Host // which is signed
		},
		ErrorLog: log.New(io.Discard, "", 0), // of requests that are given up
	})
	t.Cleanup(server.Close)
	n.url = server.URL
	return n
}

// hold keeps all requests of a site from its service. reached is closed once there is one.
func (n *network) hold(site string) (reached <-chan struct{}, release func()) {
	come, free := make(chan struct{}), make(chan struct{})
	var once sync.Once
	armed := n.Arm(fault.Fault{Site: site, Action: func(req *http.Request, _ []byte, send func() (*http.Response, error)) (*http.Response, error) {
		once.Do(func() { close(come) })
		select {
		case <-free:
			return send()
		case <-req.Context().Done():
			return nil, req.Context().Err()
		}
	}})
	return come, func() {
		armed.Disarm()
		close(free)
	}
}

// farMount is a mount of a store behind two networks, in which each row of a test has a
// directory with a file f that holds its name.
type farMount struct {
	*testing.T
	*harness.Mount
	other      *memory.Store
	s3, dynamo *network
}

// interrupted is a program that is told to stop while a request of its own is on its way
// to a service.
type interrupted struct {
	name, site string // of the row and its directory; of the request
	program    []string
	theirs     string // written to f by another session meanwhile; ""
	then       string // what the directory holds afterwards, in the mount and in the log
	kept       string // as a conflict
}

// python is a Python program that says when it makes a call, and when Ctrl-C ends that.
func python(before, call string) []string {
	script := "import os\n" + before + "\ntry:\n print('calls', flush=True)\n " + call + "\nexcept KeyboardInterrupt: print('stopped')\n"
	return []string{"python3", "-I", "-c", script}
}

// unhandled is a Python program that Ctrl-C ends.
func unhandled(script string) []string {
	return []string{"/usr/bin/env", "python3", "-I", "-c", "import os, signal; signal.signal(signal.SIGINT, signal.SIG_DFL); " + script}
}

const (
	saving  = `f = os.open('f', os.O_WRONLY | os.O_TRUNC); os.write(f, b'mine')`
	tip     = "dynamodb GetItem"
	commit  = "dynamodb TransactWriteItems"
	nothing = "" // holds a directory
)

var stopping = 5 * time.Second * harness.Slowness

// inKernel reports whether a process waits for a request to its file system, or for a
// page.
func inKernel(t *testing.T, pid int) bool {
	t.Helper()
	at, err := os.ReadFile(fmt.Sprintf("/proc/%d/wchan", pid))
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Contains(at, []byte("fuse")) || string(at) == "request_wait_answer" || bytes.HasPrefix(at, []byte("folio_wait"))
}

// interrupt runs the program of a row, and tells it to stop once it waits. The requests
// of its site are held.
func (m *farMount) interrupt(row *interrupted, reached <-chan struct{}) {
	m.Helper()
	dir := m.Dir
	if row.site != "heads" {
		dir += "/" + row.name // else it is not known yet
	}
	in := []string{"-c", `cd "$0" && exec "$@"`, dir}
	program, output := exec.Command("bash", append(in, row.program...)...), &harness.SafeBuffer{}
	program.Env, program.Stdout, program.Stderr = m.Env.Environ(), output, output
	if err := program.Start(); err != nil {
		m.Fatal(err)
	}
	ended := make(chan error, 1)
	defer func() { _ = program.Process.Kill() }()
	<-reached
	speaks := row.program[0] == "python3"
	harness.AwaitUntil(m.T, "the program waits", func() bool {
		return (!speaks || output.String() != "") && inKernel(m.T, program.Process.Pid)
	})
	go func() { ended <- program.Wait() }()
	began := time.Now()
	_ = program.Process.Signal(syscall.SIGINT)
	select {
	case err := <-ended:
		m.Logf("%s: it has ended after %v: %v", row.name, time.Since(began), err)
	case <-time.After(stopping):
		m.Fatalf("%s: after %v it still waits for %s", row.name, stopping, row.site)
	}
	if said := output.String(); speaks && said != "calls\nstopped\n" {
		m.Errorf("%s: it says %q", row.name, said)
	}
}

// shows awaits that a directory holds something, in the log and in the mount.
func (m *farMount) shows(dir, want string) {
	m.Helper()
	harness.AwaitUntil(m.T, fmt.Sprintf("/%s holds %q", dir, want), func() bool {
		var got []string
		for v, err := range m.other.Tree(m.Context(), "/"+dir+"/") {
			if err != nil {
				m.Fatal(err)
			}
			name := strings.TrimPrefix(v.Path, "/"+dir+"/")
			if !v.IsDir() {
				text, err := m.other.Content(m.Context(), v)
				if err != nil {
					m.Fatal(err)
				}
				name += "=" + string(text)
			}
			got = append(got, name)
		}
		const list = `known=$(for f in d f g; do ! [ -e $f ] || echo $f; done) # before ls tells the kernel
			for f in $(ls -p); do echo "$f$([ -d $f ] || echo "=$(cat $f)")"; done
			[ "$known" = "$(ls)" ] || echo and the kernel had other names`
		mounted := strings.Fields(m.Mount.ShIn(m.T, m.Dir+"/"+dir, list))
		return strings.Join(got, " ") == want && strings.Join(mounted, " ") == want
	})
}

// check is what must be so after a row.
func (m *farMount) check(row *interrupted) {
	m.Helper()
	m.shows(row.name, row.then)
	yours := func() string { return m.Sh(m.T, `cat .mneme/conflicts/*/yours 2>/dev/null || true`) }
	harness.AwaitUntil(m.T, fmt.Sprintf("%q is kept", row.kept), func() bool { return yours() == row.kept })
	if row.kept != "" {
		m.Sh(m.T, `rm -r .mneme/conflicts/*`)
	}
	m.Sh(m.T, `mkdir `+row.name+`/later; echo more >`+row.name+`/later/f; if test -e `+row.name+`/f; then cat `+row.name+`/f; fi; rm -r `+row.name) // the mount goes on
	m.Eventually(m.T, `! test -e `+row.name)
}

// TestInterruptedOnSlowNetwork presses Ctrl-C while S3 or DynamoDB does not answer a
// mount. The program ends at once, and not when the service answers; nothing is half
// done: what the log was asked for is done by the mount, or kept as a conflict, and
// anything else was not begun.
func TestInterruptedOnSlowNetwork(t *testing.T) {
	t.Parallel()
	harness.NeedTools(t, "python3")
	cold := []interrupted{
		{"list", "heads", python("", "os.listdir('.')"), "", "f=list", ""},
		{"look", "heads", []string{"cat", "look/f"}, "", "f=look", ""},
	}
	rows := []interrupted{
		{"read", "s3 GET blobs", []string{"cat", "f"}, "", "f=read", ""},
		{"open", tip, python("", "os.open('f', os.O_WRONLY)"), "", "f=open", ""},
		{"close", commit, python(saving, "os.close(f)"), "", "f=mine", ""},
		{"end", commit, unhandled(saving + "; os.fsync(f)"), "", "f=mine", ""},
		{"put", "s3 PUT blobs", python(saving, "os.close(f)"), "", "f=mine", ""},
		{"lose", commit, python(saving, "os.close(f)"), "theirs", "f=theirs", "mine"},
		{"rename", commit, python("", "os.rename('f', 'g')"), "", "g=rename", ""},
		{"rename-early", tip, python("", "os.rename('f', 'g')"), "", "f=rename-early", ""},
		{"unlink", commit, []string{"rm", "f"}, "", nothing, ""},
		{"unlink-early", tip, []string{"rm", "f"}, "", "f=unlink-early", ""},
		{"mkdir", commit, python("", "os.mkdir('d')"), "", "d/ f=mkdir", ""},
		{"mkdir-early", tip, python("", "os.mkdir('d')"), "", "f=mkdir-early", ""},
	}
	m := newFarMount(t, append(cold, rows...))
	reached, release := m.dynamo.hold("heads")
	m.mount()
	for i := range cold {
		m.interrupt(&cold[i], reached)
	}
	release()
	for i := range cold {
		m.check(&cold[i])
	}
	for i := range rows {
		row, service := &rows[i], m.dynamo
		if strings.HasPrefix(row.site, "s3") {
			service = m.s3
		}
		reached, release := service.hold(row.site)
		m.interrupt(row, reached)
		if row.theirs != "" {
			m.write("/"+row.name+"/f", row.theirs)
		}
		release()
		m.check(row)
	}
}

// newFarMount makes the store, yet to be mounted.
func newFarMount(t *testing.T, rows []interrupted) *farMount {
	t.Helper()
	e := harness.NewEnv(t)
	e.GoRemote(awstest.S3(t), awstest.DynamoDB(t))
	e.Store("notes")
	m := &farMount{T: t, Mount: &harness.Mount{Env: e}, other: e.OtherSession(t, "notes")}
	m.s3, m.dynamo = between(t, awstest.S3(t)), between(t, awstest.DynamoDB(t))
	for _, row := range rows {
		m.write("/"+row.name+"/f", row.name)
	}
	return m
}

func (m *farMount) mount() {
	m.Helper()
	e := m.Env
	e.Remote.Vars = awstest.EnvFor(m.s3.url, m.dynamo.url)
	m.Mount = e.Mount(m.T, "notes", "--cache-dir="+e.Dir+"/cold")
}

// write is another session's.
func (m *farMount) write(path, text string) {
	m.Helper()
	if _, err := m.other.Write(m.Context(), path, []byte(text), versionlog.ExpectAny()); err != nil {
		m.Fatal(err)
	}
}
