// Package cas is the contract of mneme's blob stores: immutable bytes
// addressed by their SHA-256. Backends live below this package (dircas,
// memcas, later s3cas) and pass the suite in castest; decorators such as the
// cache implement the same Store.
package cas

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"iter"
	"time"

	"mneme/errkind"
)

var (
	// ErrNotFound says that a store holds no blob of the digest asked for.
	ErrNotFound = errkind.New(errkind.Corrupt, "blob not found")
	// ErrCorrupt says that the stored bytes do not hash to their digest. The
	// bytes are never returned with it.
	ErrCorrupt = errkind.New(errkind.Corrupt, "blob is corrupt")
)

// NeedsError is an ErrCorrupt of a blob that is kept as what differs from another one:
// that one is damaged or gone, and its bytes, put again, mend both.
type NeedsError struct {
	Blob Digest // the other one
	Err  error  // what is wrong with it
}

// Error names the other blob.
func (e *NeedsError) Error() string {
	return fmt.Sprintf("%v: it is kept against %v: %v", ErrCorrupt, e.Blob, e.Err)
}

// Unwrap makes it an ErrCorrupt.
func (e *NeedsError) Unwrap() []error { return []error{ErrCorrupt, e.Err} }

// Digest is the SHA-256 of a blob's bytes. No normalisation is applied to the
// bytes first.
type Digest [sha256.Size]byte

// Sum returns the digest of data, of which it leaves nothing on the stack.
func Sum(data []byte) Digest {
	clearStack() // which makes room, else the stack would move away from what it had
	d := sha256.Sum256(data)
	clearStack()
	return d
}

// clearStack overwrites what the functions that the caller has called had on the stack. Those of
// sha256, which take less than this, have a block of the data there.
//
//go:noinline
func clearStack() { clearFrame(new([2 << 10]byte)) }

//go:noinline
func clearFrame(frame *[2 << 10]byte) { clear(frame[:]) }

// ParseDigest reads the form that String writes: 64 lower-case hex digits.
func ParseDigest(s string) (Digest, error) {
	var d Digest
	if len(s) != hex.EncodedLen(len(d)) {
		return d, fmt.Errorf("digest %q: want %d hex digits, have %d characters", s, hex.EncodedLen(len(d)), len(s))
	}
	for _, c := range []byte(s) {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return d, fmt.Errorf("digest %q: want lower-case hex digits only", s)
		}
	}
	_, err := hex.Decode(d[:], []byte(s))
	return d, err
}

// String returns the digest as 64 lower-case hex digits.
func (d Digest) String() string { return hex.EncodeToString(d[:]) }

// IsZero reports whether d is the zero value, which stands for "no blob".
func (d Digest) IsZero() bool { return d == Digest{} }

// MarshalText writes the String form; the zero digest becomes empty text.
func (d Digest) MarshalText() ([]byte, error) {
	if d.IsZero() {
		return nil, nil
	}
	return []byte(d.String()), nil
}

// UnmarshalText reads what MarshalText writes.
func (d *Digest) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		*d = Digest{}
		return nil
	}
	parsed, err := ParseDigest(string(text))
	if err != nil {
		return err
	}
	*d = parsed
	return nil
}

// Store holds the blobs of one memory store.
//
// Consistency: a blob is visible to every process that uses the same backend
// as soon as its Put has returned. Blobs never change, so a Get of a digest
// returns the same bytes for ever or an error.
//
// Durability: when Put returns nil the blob survives a crash of the process
// and of the machine, also when an earlier Put of the same bytes was cut off,
// and also when the stored copy had been damaged: Put repairs it. A Put that
// fails may or may not have stored the blob; it never leaves bytes that a Get
// would return for another digest.
//
// Concurrency: all methods may be called at once from many goroutines, and
// many processes may use one backend.
//
// Retries: a backend retries what its transport calls for, bounded and within
// the context; callers do not retry. Every method obeys ctx.
type Store interface {
	// Put stores data and returns its digest. Putting bytes that are already
	// there is cheap and succeeds. The store does not keep data itself. Errors
	// of the medium (no space, quota, permission) stay visible to errors.Is as
	// the syscall.Errno they were.
	Put(ctx context.Context, data []byte) (Digest, error)

	// Get returns the blob of d, verified against d. The caller must not
	// change the returned slice: it may be shared with other callers. Errors:
	// ErrNotFound, ErrCorrupt; any other says that the bytes could not be read
	// this time, and keeps the medium's syscall.Errno for errors.Is.
	Get(ctx context.Context, d Digest) ([]byte, error)

	// Has reports whether a blob of d is stored, without reading its bytes:
	// a damaged blob counts as stored. A decorator asks the store below it,
	// since what a cache holds may be lost there.
	Has(ctx context.Context, d Digest) (bool, error)
}

// BatchGetter is a Store that reads several blobs together in less time than one
// after the other.
type BatchGetter interface {
	// BatchSize is how many blobs are worth reading together. At most 1 says
	// that they are read one by one: a decorator speaks for the store below it.
	BatchSize() int

	// GetBatch returns the blobs of ds in their order, each as Get does. Nil
	// stands for one that could not be read; Get says why.
	GetBatch(ctx context.Context, ds []Digest) [][]byte
}

// BatchSize is that of a BatchGetter, and 1 for any other Store.
func BatchSize(s Store) int {
	if b, ok := s.(BatchGetter); ok {
		return b.BatchSize()
	}
	return 1
}

// GetBatch is that of a BatchGetter; of any other Store it reads nothing.
func GetBatch(ctx context.Context, s Store, ds []Digest) [][]byte {
	if b, ok := s.(BatchGetter); ok {
		return b.GetBatch(ctx, ds)
	}
	return make([][]byte, len(ds))
}

// Lister is a Store that can enumerate its blobs, for checking and garbage
// collection.
type Lister interface {
	// List yields the digest of every blob in no particular order. A blob put
	// or deleted during the walk may or may not be seen. After an error the
	// walk ends.
	List(ctx context.Context) iter.Seq2[Digest, error]
}

// Stored is a blob as a store lists it.
type Stored struct {
	Digest Digest
	Size   int64
	Age    time.Duration // since it was put, by the clock of where it is
}

// Dater is a Store that knows since when it has its blobs.
type Dater interface {
	// Stored returns how many bytes a blob has, and when it was last put. ErrNotFound.
	Stored(ctx context.Context, d Digest) (size int64, at time.Time, err error)
}

// Deleter is a Store that can give blobs up.
type Deleter interface {
	// Delete removes the blob of d, durably when it returns nil. Deleting what
	// is not there succeeds.
	// The caller makes sure that no version needs the blob any more.
	Delete(ctx context.Context, d Digest) error
}

// Forgetter is a Store that keeps copies of the blobs of another one.
type Forgetter interface {
	// Forget drops all copies, of which the blobs may have been erased. Reads that are
	// under way leave none behind. The error says that some may be left.
	Forget() error
}

// Forget has a Store drop its copies, if it is a Forgetter.
func Forget(blobs Store) error {
	if f, ok := blobs.(Forgetter); ok {
		return f.Forget()
	}
	return nil
}
