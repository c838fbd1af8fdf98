package virtual

import (
	"bytes"
	"context"
	"sync"
	"time"
)

// readme is .mneme/README, or note.
type readme struct {
	place
	write   func() []byte
	changes bool
}

func (r *readme) Constant() bool                       { return !r.changes }
func (r *readme) Stat() (int64, time.Time)             { return int64(len(r.write())), r.made }
func (r *readme) Text(context.Context) ([]byte, error) { return r.write(), nil }

// text is a text that is made again for every reader, so that it has no length before it is read.
//
// Where files are not opened, the reader is not known, and nothing is read beyond the length:
// there the text is shared, and is made when a program asks for the length, which for such a file
// the kernel does at every read.
type text struct {
	place
	write  func() []byte
	shared bool

	mu      sync.Mutex // guards what follows, which only a shared text has
	content []byte
	written time.Time
	changed time.Time
}

// textLife is how long a shared text stays what it is, so that a program which reads
// it in pieces gets pieces of one text.
const textLife = 50 * time.Millisecond

func (t *text) Constant() bool { return false }

func (t *text) Stat() (size int64, changed time.Time) {
	if !t.shared {
		return 0, t.made
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if time.Since(t.written) >= textLife {
		t.rewriteLocked()
	}
	return int64(len(t.content)), t.changed
}

func (t *text) Text(context.Context) ([]byte, error) {
	if !t.shared {
		return t.write(), nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.written.IsZero() { // its length was told by another process
		t.rewriteLocked()
	}
	return t.content, nil
}

// rewriteLocked makes the text again. One that is the same has not changed: of another
// the kernel drops what it has read.
func (t *text) rewriteLocked() {
	content := t.write()
	t.written = time.Now()
	if !bytes.Equal(content, t.content) {
		t.content, t.changed = content, t.written
	}
}
