package bench

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
)

// etcd is a server to compare with, which has its own answer to GET /health.
type etcd struct {
	host string
	pid  int
}

// startEtcd starts an etcd with an empty directory. It ends with the benchmark.
func (s *served) startEtcd() *etcd {
	url := func() string {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			s.Fatal(err)
		}
		defer l.Close()
		return "http://" + l.Addr().String()
	}
	clients, peers := url(), url()
	cmd := exec.Command("etcd", "--data-dir="+filepath.Join(s.env.Dir, "etcd"), "--listen-client-urls="+clients, "--advertise-client-urls="+clients,
		"--listen-peer-urls="+peers, "--initial-advertise-peer-urls="+peers, "--initial-cluster=default="+peers)
	log, err := os.Create(filepath.Join(s.env.Dir, "log-etcd"))
	if err != nil {
		s.Fatal(err)
	}
	defer log.Close()
	cmd.Stderr = log
	if err := cmd.Start(); err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { _ = cmd.Process.Signal(syscall.SIGTERM); _ = cmd.Wait() })
	e := &etcd{strings.TrimPrefix(clients, "http://"), cmd.Process.Pid}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		if c, err := net.Dial("tcp", e.host); err == nil {
			_ = c.Close()
			health := s.connect(e.host)
			defer health.Close()
			if _, err := health.ask("GET", "/health", ""); err == nil {
				return e
			}
		}
		if time.Now().After(deadline) {
			s.Fatal("etcd does not answer; see log-etcd")
		}
	}
}

// updater updates a text of its own, on condition that it is as it was left.
type updater func(text string) error

// inMneme updates a memory.
func (s *served) inMneme(i int) (updater, func()) {
	c, v := s.connect(s.host), s.memories[1000+i]
	path, sum := fmt.Sprintf(memoriesOf, s.store.Info().ID)+"/"+v.MemoryID, v.Digest.String()
	if i < len(s.sums) {
		sum = s.sums[i]
	}
	return func(text string) error {
		_, err := c.ask("POST", path, fmt.Sprintf(`{"content":%q,"precondition":{"type":"content_sha256","content_sha256":%q}}`, text, sum))
		sum = fmt.Sprintf("%x", sha256.Sum256([]byte(text)))
		return err
	}, func() { s.sums[i] = sum; _ = c.Close() }
}

// inEtcd updates a key by a transaction.
func (s *served) inEtcd(e *etcd, i int) (updater, func()) {
	c, key := s.connect(e.host), base64.StdEncoding.EncodeToString(fmt.Appendf(nil, "/update-%05d.md", i))
	var answer struct {
		Header    struct{ Revision string }
		Succeeded bool
	}
	ask := func(path, body string) error {
		data, err := c.ask("POST", path, body)
		if err == nil {
			err = json.Unmarshal(data, &answer)
		}
		return err
	}
	if err := ask("/v3/kv/put", fmt.Sprintf(`{"key":%q,"value":"AAAA"}`, key)); err != nil {
		s.Fatal(err)
	}
	return func(text string) error {
		answer.Succeeded = false
		err := ask("/v3/kv/txn", fmt.Sprintf(`{"compare":[{"key":%q,"target":"MOD","mod_revision":%q}],"success":[{"request_put":{"key":%q,"value":%q}}]}`,
			key, answer.Header.Revision, key, base64.StdEncoding.EncodeToString([]byte(text))))
		if err == nil && !answer.Succeeded {
			err = errors.New("the key is another")
		}
		return err
	}, func() { _ = c.Close() }
}

// mostUpdaters is how many clients update at once at most.
const mostUpdaters = 64

// updates measures clients that each update something of their own, beside etcd.
func (s *served) updates() {
	e := s.startEtcd()
	s.sums = make([]string, mostUpdaters)
	for i := range s.sums {
		s.sums[i] = s.memories[1000+i].Digest.String()
	}
	t := s.table("updates", "clients", "etcd, each second", "mneme, each second", "etcd p50, p99, ms", "mneme p50, p99, ms", "processor time of etcd, mneme, µs for each", "etcd to mneme", "target", "met", "p99 to p50", "target", "met")
	for _, clients := range []int{1, 16, mostUpdaters} {
		var rates, took [2]series // of etcd, of mneme
		var cpu [2]float64
		each := s.either(max(2560/clients, 40), 5)
		if clients == 1 {
			each = s.either(600, 20)
		}
		for range s.rounds {
			for who, open := range []func(i int) (updater, func()){func(i int) (updater, func()) { return s.inEtcd(e, i) }, s.inMneme} {
				before := s.ticksOf([]int{e.pid, s.pid}[who])
				rate, times := s.update(clients, each, open)
				cpu[who] += s.ticksOf([]int{e.pid, s.pid}[who]) - before
				rates[who], took[who] = append(rates[who], rate), append(took[who], times...)
			}
		}
		slower := rates[0].over(rates[1])
		name := fmt.Sprintf("updates of %d clients", clients)
		if clients == 1 {
			name = "updates of 1 client"
		}
		figures := func(who int) string { return figure(took[who].median()) + ", " + figure(took[who].at(0.99)) }
		all := float64(s.rounds * clients * each)
		cells := []string{fmt.Sprint(clients), fmt.Sprintf("%.0f", rates[0].median()), fmt.Sprintf("%.0f", rates[1].median()), figures(0), figures(1),
			figure(cpu[0]*10_000/all) + ", " + figure(cpu[1]*10_000/all), figure(slower.median())}
		cells = append(cells, s.goal(name, slower.median(), slower.least(), floor{}, 1, "")...)
		spread := took[1].at(0.99) / took[1].median()
		cells = append(append(cells, figure(spread)), s.goal(name+", p99 to p50", spread, spread, floor{}, 3, "")...)
		t.row(cells...)
	}
}

// update has clients update what is theirs, each so many times, and returns the rate and the times in ms.
func (s *served) update(clients, each int, open func(i int) (updater, func())) (rate float64, took series) {
	var all errgroup.Group
	updaters, ends, times := make([]updater, clients), make([]func(), clients), make([]series, clients)
	for i := range clients {
		updaters[i], ends[i] = open(i)
		defer ends[i]()
	}
	began := time.Now()
	for i := range clients {
		all.Go(func() error {
			for n := range each {
				text := fmt.Sprintf("client %d has updated this for the %d. time, at %v\n%01000d\n", i, n, time.Now().UnixNano(), n)
				began := time.Now()
				if err := updaters[i](text); err != nil {
					return err
				}
				times[i] = append(times[i], float64(time.Since(began).Nanoseconds())/1e6)
			}
			return nil
		})
	}
	if err := all.Wait(); err != nil {
		s.Fatal(err)
	}
	return float64(clients*each) / time.Since(began).Seconds(), slices.Concat(times...)
}
