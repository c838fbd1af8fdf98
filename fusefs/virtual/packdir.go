package virtual

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Packs is the path of the directory of packs in the store.
const Packs = Root + "/pack"

const (
	maxPack     = 1 << 20  // bytes; a larger one is for a person to ask for, elsewhere
	maxKeptPack = 64 << 10 // bytes of the text that stays in memory from look-up to reading
	packsAtOnce = 2        // that are made, each of which has the heads of the store in memory
)

// packs is .mneme/pack. It lists nothing: a name is a request. N is the store in N bytes, and
// N@SEQ that after a commit; N@S.. is what has changed after commit S, and N@S..SEQ that up
// to another.
//
// All names that are just a number show the store as of one commit, the newest when the first
// of them was looked up (Store.Pin), so that a prompt which is made of it twice is made of the
// same bytes.
type packs struct {
	place
	store Store
	turns chan struct{} // has room for those that are made at once

	mu      sync.Mutex  // guards what follows
	asked   PackRequest // with a number, of kept
	kept    []byte      // the last text that was short; nil: none
	forgets int         // how many times it has forgotten
}

func newPacks(s Store, made time.Time) *packs {
	return &packs{place: place{path: Packs, mode: syscall.S_IFDIR | 0o555, made: made, lasting: true}, store: s, turns: make(chan struct{}, packsAtOnce)}
}

func (p *packs) Fixed() bool                           { return false }
func (p *packs) List(context.Context) ([]Entry, error) { return nil, nil }
func (p *packs) Remove(string, bool) error             { return syscall.EROFS }

// errPackName says what the name of a pack is like.
var errPackName = fmt.Errorf("want a number of bytes of at most %d, such as 8000, and behind it @SEQ, @SINCE.. or @SINCE..SEQ", maxPack)

// Lookup makes the text, since the length of a file is asked for before it is read.
func (p *packs) Lookup(ctx context.Context, name string) (Node, error) {
	n, err := p.lookup(ctx, name)
	var missing *MissingError
	switch {
	case errors.As(err, &missing):
		return nil, &MissingError{path.Join(p.path, name), missing.Err}
	case err != nil:
		return nil, err
	}
	return n, nil
}

func (p *packs) lookup(ctx context.Context, name string) (*packFile, error) {
	ask, ok := parsePack(name)
	switch {
	case !ok && strings.ContainsAny(name[:min(1, len(name))], "0123456789"):
		return nil, &MissingError{Err: errPackName}
	case !ok:
		return nil, syscall.ENOENT // a program that looks for its own files
	}
	pinned := ask.Seq == 0 && ask.Since == nil
	f := &packFile{place: p.file(name), dir: p, constant: pinned || ask.Seq != 0}
	if pinned {
		ask.Seq = p.store.Pin(0)
	}
	text, seq, err := p.text(ctx, ask)
	if err == nil && pinned && p.store.Pin(seq) != seq {
		ask.Seq = p.store.Pin(seq) // another was first
		text, seq, err = p.text(ctx, ask)
	}
	if err != nil {
		return nil, err
	}
	ask.Seq = seq
	f.ask, f.size = ask, int64(len(text))
	f.constant = f.constant && seq != 0 // what 0 is will be another commit
	return f, nil
}

// text returns the text of a request, and the number of the commit as of which it is.
func (p *packs) text(ctx context.Context, ask PackRequest) ([]byte, uint64, error) {
	p.mu.Lock()
	kept, asked, forgets := p.kept, p.asked, p.forgets
	p.mu.Unlock()
	if kept != nil && asked.is(ask) {
		return kept, ask.Seq, nil
	}
	text, seq, err := p.render(ctx, ask)
	if err == nil && seq != 0 && len(text) <= maxKeptPack {
		ask.Seq = seq
		p.mu.Lock()
		if p.forgets == forgets { // else it may have what was erased meanwhile
			p.asked, p.kept = ask, text
		}
		p.mu.Unlock()
	}
	return text, seq, err
}

// forget drops the text that is kept, and has one that is being made not be kept.
func (p *packs) forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.kept = nil
	p.forgets++
}

// render makes a pack when its turn comes.
func (p *packs) render(ctx context.Context, ask PackRequest) (text []byte, seq uint64, err error) {
	select {
	case p.turns <- struct{}{}:
	case <-ctx.Done():
		return nil, 0, ctx.Err()
	}
	defer func() { <-p.turns }()
	return p.store.Pack(ctx, ask)
}

func (a PackRequest) is(b PackRequest) bool {
	sameSince := (a.Since == nil) == (b.Since == nil) && (a.Since == nil || *a.Since == *b.Since)
	return a.MaxBytes == b.MaxBytes && a.Seq == b.Seq && sameSince
}

// parsePack reads a name.
func parsePack(name string) (ask PackRequest, ok bool) {
	size, at, hasAt := strings.Cut(name, "@")
	n, ok := parseNumber(size)
	if !ok || n > maxPack {
		return ask, false
	}
	if ask.MaxBytes = int(n); !hasAt {
		return ask, true
	}
	since, seq, hasSince := strings.Cut(at, "..")
	if !hasSince {
		ask.Seq, ok = parseNumber(at)
		return ask, ok && ask.Seq > 0
	}
	first, ok := parseNumber(since)
	if ask.Since = &first; !ok || seq == "" {
		return ask, ok
	}
	ask.Seq, ok = parseNumber(seq)
	return ask, ok && ask.Seq > 0
}

// parseNumber reads a number as it is written: each has one name.
func parseNumber(text string) (n uint64, ok bool) {
	n, err := strconv.ParseUint(text, 10, 64)
	return n, err == nil && strconv.FormatUint(n, 10) == text
}

// packFile is a pack, as of the commit that was the newest when it was looked up, if its name
// does not say which.
type packFile struct {
	place
	dir      *packs
	ask      PackRequest // with a number
	constant bool
	size     int64
}

func (f *packFile) Constant() bool { return f.constant }

func (f *packFile) Text(ctx context.Context) ([]byte, error) {
	text, _, err := f.dir.text(ctx, f.ask)
	return text, err
}

// Stat tells another time for another commit, so that the kernel drops what it has of a file
// that is not constant.
func (f *packFile) Stat() (int64, time.Time) {
	if f.constant {
		return f.size, f.made
	}
	return f.size, f.made.Add(time.Duration(f.ask.Seq))
}
