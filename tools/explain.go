package tools

import (
	"context"
	"errors"
	"fmt"

	"mneme/errkind"
	"mneme/internal/plural"
	"mneme/internal/quote"
	"mneme/memory"
	"mneme/session"
	"mneme/versionlog"
)

// explain returns the error of a store or session as an *Error, for a call about a path, as
// it is shown. changes says whether the call makes a change. If the text of a backend may
// hold private details, such as paths of the host, the error has only its kind; the log has
// the rest.
func (m *Memory) explain(err error, shown string, changes bool) *Error {
	var own *Error
	if errors.As(err, &own) {
		return own
	}
	kind := errkind.Of(err)
	e := &Error{Kind: kind, Unsure: changes && !kind.Final() && !errors.Is(err, memory.ErrUntried)}
	e.Retry = e.retry()
	e = m.describe(e, err, shown)
	if errors.Is(err, context.Canceled) {
		return e // no caller waits for it any longer
	}
	switch kind {
	case errkind.Unknown, errkind.Corrupt, errkind.Rewritten, errkind.Denied, errkind.Unauthenticated:
		m.opts.Logger.Warn("call failed", "kind", kind.String(), "err", err)
	}
	return e
}

// describe gives e the text and the conflict of an error about a path, as it is shown. A budget that is used
// up has an *Error of its own.
func (m *Memory) describe(e *Error, err error, shown string) *Error {
	t := m.opts.Texts
	var loss *session.LostError
	var held *session.HeldError
	var secret *memory.SecretsError
	var size *memory.SizeError
	var over *session.BudgetError
	var none *memory.NoVersionError
	var gone *memory.RedactedError
	var conflict *versionlog.ConflictError
	switch {
	case errors.As(err, &loss):
		e.Conflict = max(0, loss.Conflict)
		e.text = t.say(lost, loss)
	case errors.As(err, &held):
		e.Conflict = max(0, held.Conflict)
		if e.text = t.ofKind(e, shown); errors.As(err, &secret) {
			e.text = t.say(heldSecret, shown, secret.String())
		}
	case errors.As(err, &secret):
		e.text = t.say(heldSecret, shown, secret.String())
	case errors.As(err, &over):
		if e = usedUpBy(over, t); m.opts.Renewed {
			e.Retry = Later
		}
	case errors.As(err, &conflict) && len(conflict.Conflicts) > 0:
		c := &conflict.Conflicts[0]
		e.text = t.say(conflicted, m.conflictPath(conflict.StoreID, c.Path, shown), there(c.Head))
	case errors.As(err, &none):
		e.text = t.say(noVersion, none.Ref, shown, none.Have())
	case errors.As(err, &gone):
		e.text = t.say(erased, gone.Version, shown)
	case errors.As(err, &size):
		e.text = t.say(tooLarge, shown, size.Size, size.Limit)
	case errors.Is(err, memory.ErrBadPath), errors.Is(err, memory.ErrBadVersion), errors.Is(err, memory.ErrPathTooLong):
		e.text = t.say(refusedRequest, clip(err.Error(), maxReason))
	default:
		e.text = t.ofKind(e, shown)
	}
	return e
}

// UsedUp is the answer to a call that its face does not do, since a budget is used up.
func UsedUp(over *session.BudgetError) *Result {
	e := usedUpBy(over, Documentation)
	return &Result{Text: e.text, Error: e}
}

func usedUpBy(over *session.BudgetError, t Texts) *Error {
	if over.What == "bytes" {
		return failed(errkind.OverQuota, t.say(bytesUsedUp, plural.Of(over.Limit, "byte")))
	}
	return failed(errkind.OverQuota, t.say(usedUp, plural.Of(over.Limit, "memory call")))
}

// conflictPath returns the path of a conflict, of several that a call may have; fallback, if the store
// is none of these.
func (m *Memory) conflictPath(store, path, fallback string) string {
	for _, p := range m.places {
		if p.Store.Info().ID == store {
			return quote.Text(join(p.top, path))
		}
	}
	return fallback
}

// there says what is at a path; nil: no memory.
func there(v *versionlog.Version) string {
	if v == nil {
		return "nothing"
	}
	by := quote.Name(v.Actor.String())
	if v.Session != "" {
		by = "session " + quote.Name(v.Session)
	}
	return fmt.Sprintf("version %d (%s) by %s", v.Seq, v.ID, by)
}

// maxReason bounds how much of why a request is refused is told, in bytes: it may have words
// of the request.
const maxReason = 1 << 10

// retry says whether another try can help, of an error of a store.
func (e *Error) retry() Retry {
	switch {
	case e.Kind == errkind.Corrupt, e.Kind == errkind.Rewritten:
		return Never
	case e.Unsure, e.Kind == errkind.Conflict:
		return AfterView
	case e.Kind.Retryable(), e.Kind == errkind.Unknown:
		return Later
	}
	return Never
}

// ofKind is the text of an error of which only the kind is told.
func (t Texts) ofKind(e *Error, shown string) string {
	switch {
	case e.Kind == errkind.Corrupt, e.Kind == errkind.Rewritten:
		return t.say(damaged, shown)
	case e.Unsure:
		return t.say(unsureAnswer, shown)
	}
	switch e.Kind {
	case errkind.NoSpace:
		return t.say(noRoom, "the disk is full")
	case errkind.OverQuota:
		return t.say(noRoom, "a quota is used up")
	case errkind.TooMany, errkind.TooLarge:
		return t.say(tooMany, shown)
	case errkind.NotText:
		return t.say(notText, shown)
	case errkind.Policy:
		return t.say(heldBack, shown)
	case errkind.ReadOnly, errkind.Archived:
		return t.say(readOnly, shown)
	case errkind.Denied, errkind.Unauthenticated, errkind.Fenced, errkind.Newer, errkind.Unsupported:
		return t.say(denied, shown)
	case errkind.Conflict:
		return t.say(conflicted, shown, "something else")
	case errkind.Exists:
		return t.say(exists, shown)
	case errkind.InUse:
		return t.say(inUse)
	case errkind.NotFound:
		return t.say(missing, shown)
	case errkind.Overlap:
		return t.say(belowFile, shown)
	case errkind.NameTooLong, errkind.PathEncoding, errkind.Invalid:
		return t.say(refusedRequest, e.Kind)
	}
	return t.say(noAnswer)
}

// isNotFound reports whether nothing is at a path, as opposed to an error of a directory or
// store above it.
func isNotFound(err error) bool { return errors.Is(err, versionlog.ErrNotFound) }
