package conflict

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
)

// knowledge is that a session read or wrote something at a path: sum is what, ""
// that from then on it knows nothing. It counts from some time between the two.
type knowledge struct {
	begin, end int64
	sum        string
	unread     bool // the session has put it there, or moved it away, but may not have read it
	perhaps    bool // or knows what it knew before
}

// sessionKnowledge is what a session knows by path.
type sessionKnowledge map[string][]knowledge

// during returns what a session may know of a path during a call: what it came
// to know last, and while the call lasted.
func (k sessionKnowledge) during(path string, c *mountCall) []string {
	var sums []string
	for _, one := range k.newest(path, c) {
		sums = append(sums, one.sum)
	}
	return sums
}

func (k sessionKnowledge) newest(path string, c *mountCall) []knowledge {
	var newest []knowledge
	if !slices.ContainsFunc(k[path], func(one knowledge) bool { return one.end < c.Begin && !one.perhaps }) {
		newest = append(newest, knowledge{perhaps: true}) // as at first
	}
	for _, one := range k[path] {
		superseded := slices.ContainsFunc(k[path], func(other knowledge) bool {
			return one.end < other.begin && other.end < c.Begin && !other.perhaps
		})
		if one.begin < c.End && !superseded {
			newest = append(newest, one)
		}
	}
	return newest
}

// ever returns all that a session has known of any path by the end of a call.
func (k sessionKnowledge) ever(c *mountCall) (sums []string) {
	for _, all := range k {
		for _, one := range all {
			if one.sum != "" && one.begin < c.End {
				sums = append(sums, one.sum)
			}
		}
	}
	return sums
}

// mayReplace reports whether a session that knows these may replace a text.
func mayReplace(known []string, sum string) bool {
	return slices.Contains(known, "") || slices.Contains(known, sum)
}

// moved reports whether something was renamed here that the session knows from
// elsewhere.
func (k sessionKnowledge) moved(h holding, c *mountCall) bool {
	return h.renamed && slices.Contains(k.ever(c), h.sum)
}

// knows collects what a session learns in an episode, and calls at with what it
// knew before each of its calls but reads.
func (e *episode) knows(session string, at func(c *mountCall, seq uint64, k sessionKnowledge)) {
	seqs := map[*mountCall]uint64{}
	for seq, c := range e.maker {
		seqs[c] = seq
	}
	k := sessionKnowledge{}
	calls := e.of(session)
	for _, c := range calls {
		switch {
		case c.Op != opRead || c.Errno != 0:
		case e.besideChange(c, calls): // it may have been opened before or after that
			from, to := e.ended(c.Begin, anyCall), e.began(c.Opened)
			for _, h := range e.held[c.Path] {
				if h.seq <= to && e.head(c.Path, max(from, h.seq)).seq == h.seq {
					k[c.Path] = append(k[c.Path], knowledge{begin: c.Begin, end: c.Opened, sum: h.sum, perhaps: true})
				}
			}
		default:
			k[c.Path] = append(k[c.Path], knowledge{begin: c.Begin, end: c.Opened, sum: c.Sum})
		}
	}
	for _, c := range calls {
		if c.Op == opRead {
			continue
		}
		seq := seqs[c]
		at(c, seq, k)
		if seq == 0 {
			continue
		}
		learn := func(path, sum string, unread bool) {
			k[path] = append(k[path], knowledge{begin: c.Begin, end: c.End, sum: sum, unread: unread})
		}
		at := c.place()
		before, known := e.head(at, seq-1), k.newest(c.Path, c)
		has := func(one knowledge) bool { return one.sum == before.sum }
		switch c.Op {
		case opUnlink:
			learn(c.Path, "", false)
		case opRename:
			over := e.head(c.To, seq-1).sum != ""
			read := slices.ContainsFunc(known, func(one knowledge) bool { return has(one) && !one.unread && !one.perhaps })
			learn(c.Path, "", !read)
			learn(c.To, before.sum, !over || !read)
			for _, one := range known {
				if !over { // the file moves, and with it what is known of it
					learn(c.To, one.sum, one.unread)
				}
			}
		case opAppend: // it knows only the end of a text that it has not read
			after, i := e.head(at, seq).sum, slices.IndexFunc(known, has)
			switch {
			case before.sum == "" || i >= 0:
				learn(at, after, i >= 0 && known[i].unread)
			case k.moved(before, c): // which may count as another file
				k[at] = append(k[at], knowledge{begin: c.Begin, end: c.End, sum: after, perhaps: true})
			}
			if before.sum != "" && slices.ContainsFunc(known, func(one knowledge) bool { return one.sum == "" }) {
				learn(at, "", false) // nor does who knew nothing of it before
			}
		default:
			learn(at, e.head(at, seq).sum, false)
		}
	}
}

// checkBases: what a session replaces or removes is what it knows, or it knows
// nothing of that path; and it is refused only because of another session.
func (e *episode) checkBases(session string) {
	e.knows(session, func(c *mountCall, seq uint64, k sessionKnowledge) {
		target, name := c.place(), c.Path
		if c.Op == opRename {
			target, name = c.To, c.To
		}
		if seq > 0 && c.Op != opAppend {
			was, known := e.head(target, seq-1), k.during(name, c)
			if was.sum != "" && !mayReplace(known, was.sum) && !k.moved(was, c) {
				e.fault(c, "replaced {%s}, which the session does not know; it knows {%s}", looks(was.text), e.texts(known))
			}
		}
		e.checkTakenBack(c, seq)
		if c.Errno != 0 {
			e.checkRefusal(c, target, k)
		}
	})
}

func (e *episode) texts(sums []string) string {
	var all []string
	for _, held := range e.held {
		for _, h := range held {
			if slices.Contains(sums, h.sum) {
				all = append(all, looks(h.text))
			}
		}
	}
	return strings.Join(all, " or ")
}

// mayEnd are the errors that another session can bring about.
var mayEnd = map[mountOp][]syscall.Errno{
	opRead:      {syscall.ENOENT},
	opOverwrite: {syscall.EBUSY},
	opCreate:    {syscall.EEXIST, syscall.EBUSY},
	opAppend:    {},
	opUnlink:    {syscall.ENOENT, syscall.EBUSY},
	opRename:    {syscall.ENOENT, syscall.EBUSY},
	opSave:      {syscall.EBUSY},
}

// checkRefusal: a call fails only if another session's change that the caller
// did not know of, or has only read, can be the reason.
func (e *episode) checkRefusal(c *mountCall, target string, k sessionKnowledge) {
	known := k.newest(target, c)
	if !slices.Contains(mayEnd[c.Op], c.Errno) || c.Errno == syscall.EEXIST && c.Stage != stageOpen {
		e.fault(c, "no other session can bring that about")
		return
	}
	if c.Errno != syscall.EBUSY {
		return // checkSights looks at those
	}
	if slices.ContainsFunc(known, func(one knowledge) bool { return one.unread }) {
		return // it came here with a rename, or left with one
	}
	last := e.began(c.End)
	for seq, m := range e.maker {
		if m.session == c.session || seq > last || !m.touches(c.Path) && !m.touches(target) {
			continue
		}
		there := e.head(target, seq).sum
		if m.End >= c.Begin || !slices.ContainsFunc(known, func(one knowledge) bool { return one.sum == there && !one.perhaps }) {
			return
		}
	}
	if e.mayTakeBack(c, k[target]) {
		return
	}
	e.fault(c, "refused, though no other session had changed anything")
}

// checkOpens: a call that opens for writing gets what the log has then. If another session had
// made a change by that time, the open itself is refused.
func (e *episode) checkOpens() {
	const patience = 900_000_000 // for how long a mount tries to catch up with its log
	for _, session := range e.sessions() {
		e.knows(session, func(c *mountCall, _ uint64, k sessionKnowledge) {
			if c.Op != opOverwrite && c.Op != opCreate || c.Errno != 0 && c.Stage == stageOpen || c.Opened-c.Begin > patience {
				return
			}
			known := k.during(c.Path, c)
			fits := func(h holding) bool {
				return h.sum == "" || c.Op == opOverwrite && (mayReplace(known, h.sum) || k.moved(h, c))
			}
			from, to := e.ended(c.Begin, anyCall), e.began(c.Opened)
			if _, ok := e.some(c.Path, from, to, fits); !ok {
				e.fault(c, "could be opened, though since commit %d there was {%s}", from, looks(e.head(c.Path, from).text))
			}
		})
	}
}

// checkKept: of each refused write what was written is kept, and nothing else
// is, but what a refused rename would have put in another's place.
func (e *episode) checkKept() {
	kept := slices.Clone(e.kept)
	take := func(suits func(keptText) bool) bool {
		at := slices.IndexFunc(kept, suits)
		if at >= 0 {
			kept = slices.Delete(kept, at, at+1)
		}
		return at >= 0
	}
	for i := range e.calls {
		c := &e.calls[i]
		lost := c.Token != "" && c.Errno != 0 && c.Stage != stageOpen
		// Of a file that was renamed meanwhile it is kept under the new name. The
		// kernel may hand over less at once than a program writes at once.
		if lost && !take(func(k keptText) bool {
			return k.session == c.session && k.yours != "" && strings.HasPrefix(c.text()[:c.Given], k.yours)
		}) {
			e.fault(c, "what was written is not kept")
		}
	}
	for i := range e.calls { // a rename that is refused the kernel tries again
		c := &e.calls[i]
		for take(func(k keptText) bool {
			moved := slices.ContainsFunc(e.held[c.Path], func(h holding) bool { return h.text == k.yours })
			return k.session == c.session && (c.Op == opRename && k.path == e.dir+"/"+c.To && moved || c.Op == opSave && k.yours == c.text())
		}) {
		}
	}
	for _, k := range kept {
		e.wrong = append(e.wrong, "kept, though nobody lost it: "+k.session+" "+k.path+" "+looks(k.yours))
		for i := range e.calls {
			if c := &e.calls[i]; c.session == k.session && (c.touches(strings.TrimPrefix(k.path, e.dir+"/")) || c.Token != "" && strings.Contains(k.yours, c.Token)) {
				e.wrong = append(e.wrong, fmt.Sprintf("its calls: %v", c))
			}
		}
	}
}
