package conflict

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"time"

	"mneme/tests/harness"
	"mneme/versionlog"
)

// episode is what several sessions did at once in one directory, each through a
// mount of its own, and what the store's log has of it. The log is the witness:
// it says in which order the changes happened, and every other observation must
// fit to that.
type episode struct {
	calls   []mountCall
	commits []*versionlog.Commit // that came in it
	dir     string               // "/e1"
	kept    []keptText

	// sight is how long another session's change may take to arrive, and what a busy
	// machine takes to run a process.
	sight time.Duration

	// From here on filled in by check.
	maker map[uint64]*mountCall // of every commit
	held  map[string][]holding  // by path, oldest first
	wrong []string
}

// keptText is a conflict that was kept.
type keptText struct{ session, path, yours string }

// holding is what a path held from a commit on; sum is "" for no memory.
type holding struct {
	seq     uint64
	sum     string
	text    string
	renamed bool
}

// temporaryLife is how long a file with a temporary name is left alone.
const temporaryLife = 2 * time.Second

// check returns what is wrong with an episode.
func (e *episode) check() []string {
	e.maker, e.held = map[uint64]*mountCall{}, map[string][]holding{}
	for _, path := range episodePaths {
		e.held[path] = []holding{{}}
	}
	for _, session := range e.sessions() {
		e.match(session)
	}
	for _, c := range e.commits {
		if len(e.wrong) == 0 {
			e.replay(c)
		}
	}
	if len(e.wrong) > 0 {
		return e.wrong // the rest would only follow from that
	}
	e.checkOrder()
	for _, session := range e.sessions() {
		e.checkSights(session)
	}
	if len(e.wrong) > 0 {
		return e.wrong
	}
	for _, session := range e.sessions() {
		e.checkBases(session)
	}
	e.checkOpens()
	e.checkKept()
	return e.wrong
}

func (e *episode) fault(c *mountCall, format string, args ...any) {
	text := fmt.Sprintf("%v: %s", c, fmt.Sprintf(format, args...))
	var before []*mountCall
	for _, m := range e.of(c.session) {
		if m.Begin < c.End && m != c && (m.touches(c.Path) || c.To != "" && m.touches(c.To)) {
			before = append(before, m)
		}
	}
	alike := func(a, b *mountCall) bool {
		return a.Op == opRead && b.Op == opRead && a.Path == b.Path && a.Looks == b.Looks
	}
	before = slices.CompactFunc(before, alike)
	for _, m := range before[max(0, len(before)-12):] {
		text += fmt.Sprintf("\n\tbefore: %v", m)
	}
	e.wrong = append(e.wrong, text)
}

func (c *mountCall) String() string {
	text := fmt.Sprintf("[%s %.3f–%.3f ms] %s %s", c.session, float64(c.Begin)/1e6, float64(c.End)/1e6, c.Op, c.Path)
	if c.To != "" {
		text += " > " + c.To
	}
	if c.Token != "" {
		text += fmt.Sprintf(" %s of %d bytes", c.Token, c.Size)
	}
	if c.Errno != 0 {
		text += fmt.Sprintf(": %v at %s", c.Errno, c.Stage)
	}
	return strings.TrimSpace(text + " " + c.Looks)
}

func (c *mountCall) touches(path string) bool {
	return c.Path == path || c.To == path || c.landed == path
}

// place is where a call wrote.
func (c *mountCall) place() string {
	if c.landed != "" {
		return c.landed
	}
	return c.Path
}

// changes reports whether a call was acknowledged that changes something.
func (c *mountCall) changes() bool { return c.Op != opRead && c.Errno == 0 }

func (c *mountCall) text() string { return episodeText(c.Token, c.Size) }

func (e *episode) sessions() []string {
	var all []string
	for _, c := range e.calls {
		all = append(all, c.session)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// of returns the calls of a session in the order in which they began.
func (e *episode) of(session string) []*mountCall {
	var calls []*mountCall
	for i := range e.calls {
		if e.calls[i].session == session {
			calls = append(calls, &e.calls[i])
		}
	}
	slices.SortStableFunc(calls, func(a, b *mountCall) int { return int(a.Begin - b.Begin) })
	return calls
}

// match finds the commit of each acknowledged change of a session: they come in
// the same order, and there are no others.
func (e *episode) match(session string) {
	var commits []*versionlog.Commit
	for _, c := range e.commits {
		if c.Session == session && len(e.lasting(c)) > 0 {
			commits = append(commits, c)
		}
	}
	for _, c := range e.of(session) {
		if !c.changes() {
			continue
		}
		if len(commits) == 0 {
			e.fault(c, "acknowledged without a version")
			return
		}
		if !e.fits(c, e.lasting(commits[0])) {
			e.fault(c, "acknowledged, but the session's next version is %s", describe(commits[0]))
			return
		}
		e.maker[commits[0].Seq] = c
		commits = commits[1:]
	}
	for _, c := range commits {
		e.wrong = append(e.wrong, fmt.Sprintf("[%s] a version without a call: %s", session, describe(c)))
	}
}

func describe(c *versionlog.Commit) string {
	var all []string
	for _, v := range c.Versions {
		all = append(all, fmt.Sprintf("%s %s (was %s), %d bytes", v.Op, v.Path, v.From, v.Size))
	}
	return fmt.Sprintf("%d: %s", c.Seq, strings.Join(all, ", "))
}

// lasting returns a commit's versions without those of temporary files, which
// there are only where a save took long.
func (e *episode) lasting(c *versionlog.Commit) []versionlog.Version {
	var lasting []versionlog.Version
	for _, v := range c.Versions {
		slow := func(m *mountCall) bool {
			return m.session == c.Session && m.Op == opSave && time.Duration(m.End-m.Begin) > temporaryLife*9/10
		}
		if strings.HasSuffix(v.Path, ".tmp") && slices.ContainsFunc(e.of(c.Session), slow) {
			continue
		}
		lasting = append(lasting, v)
	}
	return lasting
}

// fits reports whether versions are those that an acknowledged call makes. replay looks at their
// contents.
func (e *episode) fits(c *mountCall, versions []versionlog.Version) bool {
	v := versions[0]
	at := func(v versionlog.Version, path string) bool { return v.Path == e.dir+"/"+path }
	created, modified := v.Op == versionlog.OpCreated, v.Op == versionlog.OpModified
	switch c.Op {
	case opOverwrite, opAppend, opCreate:
		for _, path := range e.names(c) {
			if at(v, path) {
				c.landed = path
				return len(versions) == 1 && (created || modified && (c.Op != opCreate || path != c.Path))
			}
		}
		return false
	case opSave:
		fromLog := v.Op == versionlog.OpRenamed && strings.HasSuffix(v.From, ".tmp") // see lasting
		return len(versions) == 1 && (created || modified || fromLog) && at(v, c.Path)
	case opUnlink:
		return len(versions) == 1 && v.Op == versionlog.OpDeleted && at(v, c.Path)
	case opRename:
		if len(versions) == 1 {
			return v.Op == versionlog.OpRenamed && at(v, c.To) && v.From == e.dir+"/"+c.Path
		}
		return len(versions) == 2 && modified && at(v, c.To) && versions[1].Op == versionlog.OpDeleted && at(versions[1], c.Path)
	}
	return false
}

// names are those that a file may have by the time it is closed: another session
// may rename it while it is open.
func (e *episode) names(c *mountCall) []string {
	names := []string{c.Path}
	for more := true; more; {
		more = false
		for i := range e.calls {
			m := &e.calls[i]
			if m.Op == opRename && m.Errno == 0 && m.session != c.session && m.Begin <= c.End && c.Begin <= m.End &&
				slices.Contains(names, m.Path) && !slices.Contains(names, m.To) {
				names, more = append(names, m.To), true
			}
		}
	}
	return names
}

// head is what a path holds as of a commit.
func (e *episode) head(path string, seq uint64) holding {
	held := e.held[path]
	i := len(held) - 1
	for held[i].seq > seq {
		i--
	}
	return held[i]
}

// replay brings the next commit into held, if it holds what its call wrote.
func (e *episode) replay(commit *versionlog.Commit) {
	c := e.maker[commit.Seq]
	if c == nil {
		return // of a temporary file
	}
	put := func(path string, h holding) {
		h.seq = commit.Seq
		e.held[path] = append(e.held[path], h)
	}
	before := e.head(c.place(), commit.Seq)
	want := holding{text: c.text()}
	switch c.Op {
	case opUnlink:
		put(c.Path, holding{})
		return
	case opAppend:
		want.text = before.text + want.text
	case opRename:
		want.text, want.renamed = before.text, true
	}
	want.sum = harness.SumOf(want.text)
	if got := hex.EncodeToString(commit.Versions[0].Digest[:]); got != want.sum {
		e.fault(c, "version %s holds something else than it should (%s)", describe(commit), looks(want.text))
		return
	}
	if c.Op == opRename {
		put(c.Path, holding{})
		put(c.To, want)
		return
	}
	put(c.place(), want)
}

// checkOrder finds changes that happened in another order than they were made.
func (e *episode) checkOrder() {
	var last *mountCall // of those that come later, the one that ended first
	for _, commit := range slices.Backward(e.commits) {
		c := e.maker[commit.Seq]
		if c == nil {
			continue
		}
		if last != nil && last.End < c.Begin {
			e.fault(c, "comes in the log before %v, which had ended", last)
		}
		if last == nil || c.End < last.End {
			last = c
		}
	}
}

// began is the last commit whose call had begun at a time: no call can have seen a later one.
func (e *episode) began(at int64) (seq uint64) {
	for s, c := range e.maker {
		if c.Begin <= at {
			seq = max(seq, s)
		}
	}
	return seq
}

// ended is the last commit of a call that had ended at a time, of those that suit.
func (e *episode) ended(at int64, suits func(*mountCall) bool) (seq uint64) {
	for s, c := range e.maker {
		if c.End < at && suits(c) {
			seq = max(seq, s)
		}
	}
	return seq
}

func anyCall(*mountCall) bool { return true }

// some reports whether a path held something that suits at some time between
// two commits, and since which commit.
func (e *episode) some(path string, from, to uint64, suits func(holding) bool) (uint64, bool) {
	held := e.held[path]
	for i, h := range held {
		over := i+1 < len(held) && held[i+1].seq <= from
		if !over && h.seq <= max(from, to) && suits(h) {
			return h.seq, true
		}
	}
	return 0, false
}

// checkSights: a text that a session finds at a path is one that the path held at some time,
// never one from before what the session had found or made there already, and not for longer than
// it may take changes to arrive. A text that is read is all of one version.
func (e *episode) checkSights(session string) {
	type sight struct {
		end int64
		seq uint64
	}
	seen := map[string][]sight{}
	calls := e.of(session)
	for _, c := range calls {
		var want func(holding) bool
		switch {
		case c.Op == opRead && c.Errno == 0:
			want = func(h holding) bool { return h.sum == c.Sum }
		case (c.Op == opRead || c.Op == opUnlink || c.Op == opRename) && c.Errno == syscall.ENOENT:
			want = func(h holding) bool { return h.sum == "" }
		case c.Op == opCreate && c.Errno == syscall.EEXIST && c.Stage == stageOpen:
			want = func(h holding) bool { return h.sum != "" }
		default:
			continue
		}
		own := func(m *mountCall) bool { return m.session == session && (m.place() == c.Path || m.To == c.Path) }
		if e.besideChange(c, calls) {
			continue // it may see what the session itself is about to write
		}
		from := max(e.ended(c.Begin, own), e.ended(c.Begin-int64(e.sight), anyCall))
		for _, s := range seen[c.Path] {
			if s.end < c.Begin {
				from = max(from, s.seq)
			}
		}
		seq, ok := e.some(c.Path, from, e.began(c.End), want)
		if !ok {
			e.fault(c, "the path held that at no time between commits %d and %d; it held %v", from, e.began(c.End), e.around(c.Path, from))
			continue
		}
		if c.Op == opRead && c.Errno == 0 && c.Stat != c.Length {
			e.fault(c, "fstat said %d bytes, there were %d", c.Stat, c.Length)
		}
		seen[c.Path] = append(seen[c.Path], sight{c.End, seq})
	}
}

// besideChange reports whether the session of a read was just changing what it
// read.
func (e *episode) besideChange(c *mountCall, calls []*mountCall) bool {
	return c.Beside && slices.ContainsFunc(calls, func(m *mountCall) bool {
		return m.Op != opRead && m.touches(c.Path) && m.Begin <= c.End && c.Begin <= m.End
	})
}

func (e *episode) around(path string, from uint64) string {
	var all []string
	for i, h := range e.held[path] {
		if i+2 < len(e.held[path]) && e.held[path][i+2].seq <= from {
			continue
		}
		all = append(all, fmt.Sprintf("%d:{%s}", h.seq, looks(h.text)))
	}
	return strings.Join(all, " ")
}
