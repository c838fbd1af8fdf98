package gate

import (
	"context"
	"fmt"
	"time"

	"mneme/forget"
	"mneme/gateway/wire"
	"mneme/server/access"
	"mneme/versionlog"
)

// ask makes an operation of a function that answers at once.
func ask(do func(context.Context, *view, *wire.Ask) (*wire.Answer, error)) func(*call) error {
	return func(c *call) error {
		asked, err := c.ask()
		if err != nil {
			return err
		}
		answer, err := do(c.Context(), c.view, asked)
		if err != nil {
			return err
		}
		return c.answer(answer)
	}
}

// change makes an operation of a function that changes something. By the time that the request is
// read, its caller may count no more.
func change(do func(context.Context, *view, *wire.Ask) (*wire.Answer, error)) func(*call) error {
	return func(c *call) error {
		asked, err := c.ask()
		if err != nil {
			return err
		}
		if err := c.lookAgain(); err != nil {
			return err
		}
		answer, err := do(c.Context(), c.view, asked)
		if err != nil {
			return err
		}
		return c.answer(answer)
	}
}

func hello(c *call) error {
	can := c.view.log.Capabilities()
	return c.answer(&wire.Answer{Hello: &wire.Hello{
		Protocol: wire.Protocol, MaxContent: min(can.MaxContent, wire.MaxContent),
		Purges: can.Purge != nil, TellsUnpurged: can.Unpurged != nil, TellsLeft: can.Left != nil, Forgets: c.machine != nil, ErasesContents: can.ErasesContents,
		Caller: callerOf(c.view.credential),
	}})
}

// callerOf is what a caller is told of its credential; nil: nothing.
func callerOf(c *access.Caller) *wire.Caller {
	if c == nil {
		return nil
	}
	told := &wire.Caller{Key: c.Actor.ID, Session: c.Session, Everywhere: c.Everywhere.String(), Grants: map[string]string{}}
	for id, right := range c.Grants {
		told.Grants[id] = right.String()
	}
	return told
}

func createStore(ctx context.Context, v *view, a *wire.Ask) (*wire.Answer, error) {
	if a.New == nil {
		return nil, fmt.Errorf("%w: the request describes no store", versionlog.ErrInvalid)
	}
	return &wire.Answer{}, v.log.CreateStore(ctx, a.New.Store())
}

func store(ctx context.Context, v *view, a *wire.Ask) (*wire.Answer, error) {
	find := func() (versionlog.Store, error) { return v.log.Store(ctx, a.Store) }
	if a.Slug != "" {
		find = func() (versionlog.Store, error) { return v.log.StoreNamed(ctx, string(a.Slug)) }
	}
	s, err := find()
	if err != nil {
		return nil, err
	}
	return &wire.Answer{Store: versionlog.NewStoreJSON(s)}, nil
}

func deleteStore(ctx context.Context, v *view, a *wire.Ask) (*wire.Answer, error) {
	return &wire.Answer{}, v.log.DeleteStore(ctx, a.Store)
}

func tip(ctx context.Context, v *view, a *wire.Ask) (*wire.Answer, error) {
	t, err := v.log.Tip(ctx, a.Store)
	return &wire.Answer{Tip: wire.TipOf(t)}, err
}

// answerVersion answers with a version.
func answerVersion(found versionlog.Version, err error) (*wire.Answer, error) {
	if err != nil {
		return nil, err
	}
	text, err := versionlog.EncodeVersion(&found)
	return &wire.Answer{Version: text}, err
}

func head(ctx context.Context, v *view, a *wire.Ask) (*wire.Answer, error) {
	if a.At == nil {
		return answerVersion(v.log.Head(ctx, a.Store, string(a.Path)))
	}
	state, err := v.log.At(ctx, a.Store, *a.At)
	if err != nil {
		return nil, err
	}
	return answerVersion(state.Head(ctx, string(a.Path)))
}

func last(ctx context.Context, v *view, a *wire.Ask) (*wire.Answer, error) {
	return answerVersion(v.log.Last(ctx, a.Store, string(a.Path)))
}

func held(ctx context.Context, v *view, a *wire.Ask) (*wire.Answer, error) {
	yes, err := v.log.Held(ctx, a.Store, string(a.Path))
	return &wire.Answer{Yes: yes}, err
}

func version(ctx context.Context, v *view, a *wire.Ask) (*wire.Answer, error) {
	return answerVersion(v.log.Version(ctx, a.Store, a.ID))
}

func newest(ctx context.Context, v *view, a *wire.Ask) (*wire.Answer, error) {
	return answerVersion(v.log.Newest(ctx, a.Store, a.ID))
}

func at(ctx context.Context, v *view, a *wire.Ask) (*wire.Answer, error) {
	_, err := v.log.At(ctx, a.Store, a.Seq)
	return &wire.Answer{Yes: true}, err
}

func seqAt(ctx context.Context, v *view, a *wire.Ask) (*wire.Answer, error) {
	var when time.Time
	if a.Time != nil {
		when = *a.Time
	}
	seq, err := v.log.SeqAt(ctx, a.Store, when)
	return &wire.Answer{Seq: seq}, err
}

func purge(ctx context.Context, v *view, a *wire.Ask) (*wire.Answer, error) {
	does := v.log.Capabilities().Purge
	if does == nil {
		return nil, versionlog.ErrNoRedaction
	}
	places, err := does(ctx, a.Store, a.Versions)
	if err != nil {
		return nil, err
	}
	return purgedAnswer(places), nil
}

// forgetKept erases what the server's machine keeps of versions beside log and contents.
func forgetKept(c *call) error {
	asked, err := c.ask()
	if err != nil {
		return err
	}
	if err := c.lookAgain(); err != nil {
		return err
	}
	if c.machine == nil || c.view.credential == nil {
		return errNoOperation
	}
	st, err := c.view.credential.Open(c.Context(), asked.Store, access.Read)
	if err == nil {
		err = c.view.credential.Allow(asked.Store, access.Admin)
	}
	if err != nil {
		return err
	}
	_, places, err := forget.EraseKept(c.Context(), c.machine, st, &forget.Request{Versions: asked.Versions, Contents: asked.Blobs, Text: string(asked.Text)})
	c.view.credential.HasErased(asked.Store) // the request has the text, and may come long after the event
	if err != nil {
		return err
	}
	return c.answer(purgedAnswer(places))
}

func purgedAnswer(places []versionlog.Purged) *wire.Answer {
	answer := &wire.Answer{}
	for _, p := range places {
		answer.Purged = append(answer.Purged, wire.Purged(p))
	}
	return answer
}

func unpurged(ctx context.Context, v *view, a *wire.Ask) (*wire.Answer, error) {
	does := v.log.Capabilities().Unpurged
	if does == nil {
		return nil, errNoOperation
	}
	seqs, err := does(ctx, a.Store)
	return &wire.Answer{Seqs: seqs}, err
}

func left(ctx context.Context, v *view, a *wire.Ask) (*wire.Answer, error) {
	does := v.log.Capabilities().Left
	if does == nil {
		return nil, errNoOperation
	}
	return &wire.Answer{}, does(ctx, a.Store)
}

func hasBlobs(ctx context.Context, v *view, a *wire.Ask) (*wire.Answer, error) {
	blobs, err := v.blobs(ctx, a.Store, access.Read)
	if err != nil {
		return nil, err
	}
	answer := &wire.Answer{}
	for _, d := range a.Blobs {
		has, err := blobs.Has(ctx, d)
		if err != nil {
			return nil, err
		}
		answer.Has = append(answer.Has, has)
	}
	return answer, nil
}

// commit commits what the request proposes.
func commit(c *call) error {
	storeID := c.Header.Get(wire.StoreHeader)
	if _, err := c.view.blobs(c.Context(), storeID, access.Write); err != nil {
		return err
	}
	body, done, err := c.body(4 + wire.MaxProposal + wire.MaxRiding)
	if err != nil {
		return err
	}
	defer done()
	p, err := wire.DecodeProposal(body)
	if err != nil {
		return err
	}
	if err := c.lookAgain(); err != nil {
		return err
	}
	made, err := c.view.log.Commit(c.Context(), storeID, p)
	if err != nil {
		return err
	}
	record, err := wire.EncodeCommit(made)
	if err != nil {
		return err
	}
	return c.answer(&wire.Answer{Commit: record})
}
