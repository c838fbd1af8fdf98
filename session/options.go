package session

import (
	"mneme/memory"
	"mneme/versionlog"
)

// WriteOptions go with a change; nil and the zero value are the default.
type WriteOptions struct {
	// Expect is what must be there, of a change to one memory. Nil: the version that the session
	// knows or, if it knows nothing and is not strict, anything. Bytes that fail under the
	// caller's own condition are not kept: the caller has them. The error is a
	// *versionlog.ConflictError.
	Expect *versionlog.Expectation
	// Swap says that the same bytes, if they are there already and are not what Expect means,
	// are a conflict as others are: two writes under one condition are not both done.
	Swap bool
	// Admit is asked, by RemoveTree, of each memory that it would remove; its error ends that.
	Admit   func(*versionlog.Version) error
	Key     string            // idempotency key, which may have been used before; "" is a fresh one
	Message string            // for people
	Meta    map[string]string // for programs, at most 16 pairs
	// Confirmed says that a user means changes that the store's policy holds back otherwise: its
	// guard, and its rule for secrets.
	Confirmed bool
	Actor     versionlog.Actor // zero: the author for whom the store was opened
	// Warn is called with each content that has brought a credential into a store which warns of
	// them. The session's Journal says so in any case.
	Warn func(memory.SecretsFound)

	kept     int  // the conflict that keeps the text already; 0: none
	restores bool // see memory.CommitOptions
}

// commitOptions returns the options of a commit, except its key.
func (s *Session) commitOptions(o *WriteOptions) (opts memory.CommitOptions) {
	if o == nil {
		return opts
	}
	opts.Message, opts.Meta, opts.Confirmed, opts.Restores, opts.Warn = o.Message, o.Meta, o.Confirmed, o.restores, o.Warn
	if o.Actor != (versionlog.Actor{}) {
		opts.Actor, opts.Session = o.Actor, s.opts.ID
	}
	return opts
}

func (o *WriteOptions) key() string {
	if o == nil {
		return ""
	}
	return o.Key
}

// keptIn is the conflict that keeps the text already; 0: none.
func (o *WriteOptions) keptIn() int {
	if o == nil {
		return 0
	}
	return o.kept
}

func (o *WriteOptions) swaps() bool { return o != nil && o.Swap && o.Expect != nil }

func (o *WriteOptions) expect() *versionlog.Expectation {
	if o == nil {
		return nil
	}
	return o.Expect
}
