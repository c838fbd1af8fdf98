package conflict

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"mneme/tests/harness"
)

// replicas are two servers over one library, of which one is killed now and then.
type replicas struct {
	*testing.T
	env       *harness.Env
	secret    string
	addresses [2]string
	second    *exec.Cmd
	client    *http.Client
	memories  string // path of the store's memories
}

// TestReplicas has 32 clients read and update memories, each update with a precondition, by either
// of two servers while one of them is killed again and again: what they were answered is linearizable, and
// nothing that was acknowledged is lost.
func TestReplicas(t *testing.T) {
	t.Parallel()
	r := newReplicas(t)
	memories, updates, every := 8, 200, 80
	switch {
	case harness.Torture() && r.env.Remote != nil:
		memories, updates, every = 64, 5000, 500
	case harness.Torture():
		memories, updates, every = 64, 100_000, 1000
	}
	if text := os.Getenv("MNEME_RUNS"); text != "" {
		var err error
		if updates, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	var ids []string
	for i := range memories {
		status, data, err := r.ask(t.Context(), 0, "POST", "", map[string]any{"path": fmt.Sprintf("/%d.md", i), "content": "first"})
		var made struct{ ID string }
		if err != nil || status != 200 || json.Unmarshal(data, &made) != nil {
			t.Fatalf("%d %s %v", status, data, err)
		}
		ids = append(ids, made.ID)
	}
	var done atomic.Int64 // updates that succeeded
	kills := 0
	ctx, stop := context.WithCancel(t.Context())
	var clients sync.WaitGroup
	histories := make([][]access, 32)
	began := time.Now()
	for n := range histories {
		clients.Go(func() {
			c := &accessor{replicas: r, n: n, began: began, random: rand.New(rand.NewPCG(1, uint64(n))), known: map[string]string{}}
			for done.Load() < int64(updates) && ctx.Err() == nil {
				if c.once(ids) {
					done.Add(1)
				}
			}
			histories[n] = c.made
		})
	}
	for next := every; next < updates; next += every {
		for done.Load() < int64(next) && !t.Failed() {
			time.Sleep(time.Millisecond)
		}
		r.kill()
		kills++
		r.start(1)
	}
	clients.Wait()
	stop()
	took := time.Since(began)
	var all []access
	for _, made := range histories {
		all = append(all, made...)
	}
	acknowledged := r.check(ids, all)
	t.Logf("%d calls, of which %d are acknowledged updates, by 32 clients in %v; one server of two killed %d times", len(all), acknowledged, took.Round(time.Millisecond), kills)
}

func newReplicas(t *testing.T) *replicas {
	r := &replicas{T: t, env: harness.NewEnv(t), client: &http.Client{Timeout: time.Minute, Transport: &http.Transport{MaxIdleConnsPerHost: 64}}}
	r.env.Store("notes")
	var key struct{ Secret string }
	if err := json.Unmarshal([]byte(r.env.Must(t, "key", "create", "clients", "--admin", "--json")), &key); err != nil {
		t.Fatal(err)
	}
	r.secret = key.Secret
	for i := range r.addresses {
		l, err := net.Listen("tcp", "127.0.0.1:0") // a port to come back to
		if err != nil {
			t.Fatal(err)
		}
		r.addresses[i] = l.Addr().String()
		l.Close()
		r.start(i)
	}
	r.memories = "/v1/memory_stores"
	status, data, err := r.ask(t.Context(), 0, "GET", "", nil)
	var list struct{ Data []struct{ ID string } }
	if err != nil || status != 200 || json.Unmarshal(data, &list) != nil || len(list.Data) != 1 {
		t.Fatalf("%d %s %v", status, data, err)
	}
	r.memories += "/" + list.Data[0].ID + "/memories"
	return r
}

// start starts a server, and returns when it takes requests.
func (r *replicas) start(i int) {
	cmd := exec.Command(r.env.Daemon, "serve", "--listen", r.addresses[i], "--json")
	cmd.Env = r.env.Environ()
	var log bytes.Buffer
	cmd.Stderr = &log
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		r.Fatal(err)
	}
	var said any
	if err := json.NewDecoder(out).Decode(&said); err != nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		r.Fatalf("%v: %s", err, log.String())
	}
	if i == 1 {
		r.second = cmd
		return
	}
	r.Cleanup(func() {
		for _, one := range []*exec.Cmd{cmd, r.second} {
			_ = one.Process.Signal(syscall.SIGTERM)
			if err := one.Wait(); err != nil {
				r.Errorf("the server: %v", err)
			}
		}
		if strings.Contains(log.String(), "panic") {
			r.Error(log.String())
		}
	})
}

// kill kills the second server.
func (r *replicas) kill() {
	if err := r.second.Process.Kill(); err != nil {
		r.Fatal(err)
	}
	_ = r.second.Wait()
}

func (r *replicas) ask(ctx context.Context, server int, method, id string, body any) (status int, answer []byte, err error) {
	data, err := json.Marshal(body)
	if err != nil {
		return 0, nil, err
	}
	if body == nil {
		data = nil
	}
	path := r.memories
	if id != "" {
		path += "/" + id
	}
	q, err := http.NewRequestWithContext(ctx, method, "http://"+r.addresses[server]+path, bytes.NewReader(data))
	if err != nil {
		return 0, nil, err
	}
	q.Header.Set("Authorization", "Bearer "+r.secret)
	a, err := r.client.Do(q)
	if err != nil {
		return 0, nil, err
	}
	defer a.Body.Close()
	answer, err = io.ReadAll(a.Body)
	return a.StatusCode, answer, err
}

// access is one call: a read, or an update of the text that a client has read to one that no
// other client writes.
type access struct {
	memory            string
	from, to          string // of an update; of a read to is what it returned
	isUpdate          bool
	refused, isUnsure bool // its precondition did not hold; it may have happened
	called, returned  int64
}

// accessor is one client.
type accessor struct {
	*replicas
	n, count int
	began    time.Time
	random   *rand.Rand
	known    map[string]string // by memory: the content that it has read or written last
	made     []access
}

// once makes a call, and reports whether it is an update that was acknowledged.
func (c *accessor) once(ids []string) bool {
	id := ids[c.random.IntN(len(ids))]
	from, isKnown := c.known[id]
	call := access{memory: id, isUpdate: isKnown && c.random.IntN(4) > 0, called: int64(time.Since(c.began))}
	method, body := "GET", any(nil)
	if call.isUpdate {
		c.count++
		call.from, call.to = from, fmt.Sprintf("client %d, %d", c.n, c.count)
		method, body = "POST", map[string]any{"content": call.to, "precondition": map[string]string{"type": "content_sha256", "content_sha256": fmt.Sprintf("%x", sha256.Sum256([]byte(from)))}}
	}
	status, data, err := c.ask(c.Context(), c.random.IntN(2), method, id, body)
	call.returned = int64(time.Since(c.began))
	delete(c.known, id)
	var refused *net.OpError
	switch {
	case errors.As(err, &refused) && refused.Op == "dial":
		return false // it was not sent
	case err != nil || status >= 500:
		if call.isUpdate {
			call.isUnsure = true
			c.made = append(c.made, call)
		}
		return false
	case call.isUpdate && status == 409:
		call.refused = true
	case status != 200:
		c.Errorf("%s %s: %d %s", method, id, status, data)
		return false
	case call.isUpdate:
		c.known[id] = call.to
	default:
		var got struct{ Content string }
		if err := json.Unmarshal(data, &got); err != nil {
			c.Error(err)
		}
		call.to, c.known[id] = got.Content, got.Content
	}
	c.made = append(c.made, call)
	return call.isUpdate && !call.refused
}

// written is how often each content was, by its digest, as the history of a memory says.
func (r *replicas) written(id string) map[string]int {
	counts := map[string]int{}
	versions := strings.TrimSuffix(r.memories, "/memories") + "/memory_versions?limit=100&memory_id=" + id
	for page := ""; ; {
		own := *r
		own.memories = versions + "&page=" + page
		status, data, err := own.ask(r.Context(), 0, "GET", "", nil)
		var list struct {
			Data []struct {
				SHA256 string `json:"content_sha256"`
			}
			Next string `json:"next_page"`
		}
		if err != nil || status != 200 || json.Unmarshal(data, &list) != nil {
			r.Fatalf("%d %s %v", status, data, err)
		}
		for _, v := range list.Data {
			counts[v.SHA256]++
		}
		if page = list.Next; page == "" {
			return counts
		}
	}
}

// check holds the calls against one order of them, and those that were acknowledged against the history.
func (r *replicas) check(ids []string, all []access) (acknowledged int) {
	var operations []porcupine.Operation
	for _, id := range ids {
		written := r.written(id)
		known := 1 // the creation
		for _, call := range all {
			if call.memory != id {
				continue
			}
			times := written[fmt.Sprintf("%x", sha256.Sum256([]byte(call.to)))]
			if call.isUpdate {
				known += times
			}
			switch {
			case !call.isUpdate:
			case call.isUnsure && times == 0:
				continue // it did not happen
			case call.isUnsure:
				call.returned = int64(1) << 62
			case call.refused != (times == 0) || times > 1:
				r.Errorf("an update that was refused (%v) is in the history %d times: %+v", call.refused, times, call)
			case !call.refused:
				acknowledged++
			}
			operations = append(operations, porcupine.Operation{Input: call, Call: call.called, Return: call.returned})
		}
		total := 0
		for _, n := range written {
			total += n
		}
		if total != known {
			r.Errorf("memory %s has %d versions, of which %d were asked for", id, total, known)
		}
	}
	if result := porcupine.CheckOperationsTimeout(register, operations, time.Minute); result != porcupine.Ok {
		r.Errorf("linearizable: %v", result)
	}
	return acknowledged
}

// register is a memory as its clients see it: its content.
var register = porcupine.Model{
	Partition: func(all []porcupine.Operation) (parts [][]porcupine.Operation) {
		of := map[string]int{}
		for _, one := range all {
			id := one.Input.(access).memory
			at, ok := of[id]
			if !ok {
				at = len(parts)
				of[id] = at
				parts = append(parts, nil)
			}
			parts[at] = append(parts[at], one)
		}
		return parts
	},
	Init: func() any { return "first" },
	Step: func(state, input, _ any) (bool, any) {
		call := input.(access)
		switch {
		case !call.isUpdate:
			return state == call.to, state
		case call.refused:
			return state != call.from, state
		}
		return state == call.from, call.to
	},
}
