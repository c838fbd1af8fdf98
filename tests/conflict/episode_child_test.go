package conflict

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"mneme/tests/harness"
)

// part is what one session does in an episode: so many calls, one after the
// other, and with Reads as many reads beside them.
type part struct {
	Session string `json:"session"`
	Episode int    `json:"episode"`
	Seed    uint64 `json:"seed"`
	Calls   int    `json:"calls"`
	Reads   bool   `json:"reads"`
}

// mountCall is a call that a session made through its mount, and how it ended.
// Times are of CLOCK_MONOTONIC, which all processes share.
type mountCall struct {
	Op     mountOp       `json:"op"`
	Path   string        `json:"path"`
	To     string        `json:"to,omitempty"`    // of a rename
	Token  string        `json:"token,omitempty"` // names the text that was to be written
	Size   int           `json:"size,omitempty"`  // of that text
	Errno  syscall.Errno `json:"errno"`           // 0: well
	Stage  mountStage    `json:"stage,omitempty"` // where it failed
	Given  int           `json:"given,omitempty"` // bytes that were given to write
	Beside bool          `json:"beside,omitempty"`

	Begin  int64 `json:"begin"`
	Opened int64 `json:"opened,omitempty"` // when open returned
	End    int64 `json:"end"`

	Sum    string `json:"sum,omitempty"`    // of the text that was read
	Length int64  `json:"length,omitempty"` // of that
	Stat   int64  `json:"stat,omitempty"`   // the size that fstat said
	Looks  string `json:"looks,omitempty"`  // what was read, for people

	// Filled in by the test.
	session string
	landed  string // where the version is that it made, if not at Path
}

type mountOp string

const (
	opRead      mountOp = "read"      // open, fstat, read to the end, close
	opOverwrite mountOp = "overwrite" // as a shell's >
	opCreate    mountOp = "create"    // with O_EXCL
	opAppend    mountOp = "append"    // as a shell's >>
	opUnlink    mountOp = "unlink"
	opRename    mountOp = "rename"
	opSave      mountOp = "save" // write a temporary file, rename it over
)

type mountStage string

const (
	stageOpen   mountStage = "open"
	stageWrite  mountStage = "write"
	stageFsync  mountStage = "fsync"
	stageClose  mountStage = "close"
	stageRename mountStage = "rename"
)

var episodePaths = []string{"a", "b", "c"}

// episodeText is a text of so many bytes, whole lines, that no other call writes and each of
// whose lines says so.
func episodeText(token string, size int) string {
	line := token + " " + strings.Repeat(".", episodeLine-len(token)-2) + "\n"
	return strings.Repeat(line, size/episodeLine)
}

const episodeLine = 63

// player plays a part.
type player struct {
	part
	dir    string
	n      *atomic.Int64 // texts so far
	random *rand.Rand
	calls  []mountCall
}

// playPart plays a part in a directory and returns the calls as JSON.
func playPart(dir, order string) (string, error) {
	var p part
	if err := json.Unmarshal([]byte(order), &p); err != nil {
		return "", err
	}
	actor := &player{part: p, dir: dir, n: new(atomic.Int64), random: rand.New(rand.NewPCG(p.Seed, 0))}
	reader := &player{part: p, dir: dir, random: rand.New(rand.NewPCG(p.Seed, 1))}
	stop := make(chan struct{})
	var beside sync.WaitGroup
	if p.Reads {
		beside.Go(func() {
			for range p.Calls {
				select {
				case <-stop:
					return
				default:
					reader.do(mountCall{Op: opRead, Path: reader.path(), Beside: true})
				}
			}
		})
	}
	for len(actor.calls) < p.Calls {
		actor.step()
	}
	close(stop)
	beside.Wait()
	text, err := json.Marshal(append(actor.calls, reader.calls...))
	return string(text), err
}

func (p *player) path() string { return episodePaths[p.random.IntN(len(episodePaths))] }

// step makes a call, often reads first what it means to replace, and often
// insists, without looking, on what was refused.
func (p *player) step() {
	c := mountCall{Path: p.path()}
	switch n := p.random.IntN(20); {
	case n < 5:
		c.Op = opRead
	case n < 9:
		c.Op = opOverwrite
	case n < 12:
		c.Op = opAppend
	case n < 14:
		c.Op = opCreate
	case n < 15:
		c.Op = opUnlink
	case n < 17:
		for c.Op, c.To = opRename, c.Path; c.To == c.Path; {
			c.To = p.path()
		}
	default:
		c.Op = opSave
	}
	if (c.Op == opOverwrite || c.Op == opSave) && p.random.IntN(3) > 0 {
		p.do(mountCall{Op: opRead, Path: c.Path})
	}
	switch c.Op {
	case opOverwrite, opCreate, opSave:
		c.Size = episodeLine * []int{1, 40, 66, 143, 318}[p.random.IntN(5)] // up to five pages
	case opAppend:
		c.Size = episodeLine
	}
	if c.Size > 0 {
		c.Token = p.token()
	}
	if p.do(c) == syscall.EBUSY && p.random.IntN(3) > 0 {
		if c.Size > 0 {
			c.Token = p.token()
		}
		p.do(c)
	}
}

func (p *player) token() string {
	return fmt.Sprintf("%s.%d.%d", p.Session, p.Episode, p.n.Add(1))
}

// do makes a call and records it.
func (p *player) do(c mountCall) syscall.Errno {
	path := filepath.Join(p.dir, c.Path)
	var err error
	c.Begin = harness.Monotonic()
	switch c.Op {
	case opRead:
		err = p.read(&c, path)
	case opOverwrite:
		err = p.write(&c, path, os.O_CREATE|os.O_TRUNC)
	case opCreate:
		err = p.write(&c, path, os.O_CREATE|os.O_EXCL)
	case opAppend:
		err = p.write(&c, path, os.O_CREATE|os.O_APPEND)
	case opUnlink:
		err = syscall.Unlink(path)
	case opRename:
		err = syscall.Rename(path, filepath.Join(p.dir, c.To))
	case opSave:
		err = p.save(&c, path)
	}
	c.End = harness.Monotonic()
	if err != nil && !errors.As(err, &c.Errno) {
		c.Errno, c.Looks = syscall.EIO, err.Error()
	}
	p.calls = append(p.calls, c)
	return c.Errno
}

func (p *player) read(c *mountCall, path string) error {
	f, err := os.Open(path)
	c.Opened = harness.Monotonic()
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	c.Stat = info.Size()
	var data []byte
	piece := make([]byte, 1<<(9+p.random.IntN(8)))
	slow := p.random.IntN(4) == 0
	for {
		n, err := f.Read(piece)
		data = append(data, piece[:n]...)
		if errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return err
		}
		if slow && len(data) < 8192 { // so that others get something done meanwhile
			time.Sleep(time.Duration(p.random.IntN(3000)) * time.Microsecond)
		}
	}
	sum := sha256.Sum256(data)
	c.Sum, c.Length, c.Looks = hex.EncodeToString(sum[:]), int64(len(data)), looks(string(data))
	return nil
}

// looks says what a text is made of: how many lines of which texts.
func looks(text string) string {
	var b strings.Builder
	last, count := "", 0
	flush := func() {
		if count > 0 {
			fmt.Fprintf(&b, "%d×%s ", count, last)
		}
	}
	for line := range strings.Lines(text) {
		token, _, _ := strings.Cut(line, " ")
		if strings.Trim(line, "\x00") == "" {
			token = fmt.Sprintf("%d-zeros", len(line))
		}
		if !strings.HasSuffix(line, "\n") {
			token += "-cut"
		}
		if token != last {
			flush()
			last, count = token, 0
		}
		count++
	}
	flush()
	return strings.TrimSpace(b.String())
}

// write writes the text of a call in a few pieces.
func (p *player) write(c *mountCall, path string, flags int) (err error) {
	f, err := os.OpenFile(path, os.O_WRONLY|flags, 0o644)
	c.Opened = harness.Monotonic()
	if err != nil {
		c.Stage = stageOpen
		return err
	}
	fails := func(stage mountStage, e error) {
		if e != nil && err == nil {
			c.Stage, err = stage, e
		}
	}
	text := episodeText(c.Token, c.Size)
	pieces := 1
	if c.Op != opAppend {
		pieces += p.random.IntN(3)
	}
	for c.Given < len(text) && err == nil {
		next := min(c.Given+len(text)/pieces+1, len(text))
		_, e := f.WriteString(text[c.Given:next])
		c.Given = next
		fails(stageWrite, e)
	}
	if err == nil && p.random.IntN(4) == 0 {
		fails(stageFsync, f.Sync())
	}
	fails(stageClose, f.Close())
	return err
}

func (p *player) save(c *mountCall, path string) error {
	temp := fmt.Sprintf("%s.%s.tmp", path, p.Session)
	if err := p.write(c, temp, os.O_CREATE|os.O_TRUNC); err != nil {
		return err
	}
	err := syscall.Rename(temp, path)
	if err != nil {
		c.Stage = stageRename
		_ = syscall.Unlink(temp)
	}
	return err
}
