package wire

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"mneme/versionlog"
)

// proposal is a versionlog.Proposal.
type proposal struct {
	Key       string           `json:"key"`
	Fresh     bool             `json:"fresh,omitempty"`
	Actor     versionlog.Actor `json:"actor"`
	Session   string           `json:"session,omitempty"`
	Message   string           `json:"message,omitempty"`
	Meta      pairs            `json:"meta,omitempty"`
	Epoch     uint64           `json:"epoch,omitempty"`
	Quota     versionlog.Quota `json:"quota,omitzero"`
	Used      usage            `json:"used,omitzero"`
	Deleted   int64            `json:"deleted,omitempty"`
	Confirmed bool             `json:"confirmed,omitempty"`
	Finished  json.RawMessage  `json:"finished,omitempty"` // a record
	Changes   changes          `json:"changes,omitempty"`
	Event     *event           `json:"event,omitempty"`
}

type usage struct {
	Bytes    int64 `json:"bytes"`
	Memories int64 `json:"memories"`
	LastHour int64 `json:"last_hour"`
}

type event struct {
	Kind   versionlog.EventKind `json:"kind"`
	Fields pairs                `json:"fields,omitempty"`
}

// toEvent and fromEvent convert events.
func toEvent(e *versionlog.Event) *event {
	if e == nil {
		return nil
	}
	return &event{e.Kind, e.Fields}
}

func fromEvent(e *event) *versionlog.Event {
	if e == nil {
		return nil
	}
	return &versionlog.Event{Kind: e.Kind, Fields: e.Fields}
}

// EncodeProposal returns the body of a commit: the length of the JSON in four bytes,
// big-endian, the JSON, and behind it the contents that ride, in the order of the changes. The
// proposal must be valid.
func EncodeProposal(p *versionlog.Proposal) ([]byte, error) {
	w := proposal{
		p.Key, p.Fresh, p.Actor, p.Session, p.Message, p.Meta, p.Epoch, p.Quota, usage(p.Used), p.Deleted, p.Confirmed,
		nil, p.Changes, toEvent(p.Event),
	}
	if p.Finished != nil {
		var err error
		if w.Finished, err = versionlog.EncodeRecord(p.Finished); err != nil {
			return nil, err
		}
	}
	riding := 0
	for _, c := range p.Changes {
		riding += len(c.Content)
	}
	text, err := json.Marshal(&w)
	if err != nil {
		return nil, err
	}
	if len(text) > MaxProposal {
		return nil, fmt.Errorf("the proposal takes %d bytes without contents, at most %d: %w", len(text), MaxProposal, versionlog.ErrTooLarge)
	}
	body := make([]byte, 0, 4+len(text)+riding)
	body = binary.BigEndian.AppendUint32(body, uint32(len(text)))
	body = append(body, text...)
	for _, c := range p.Changes {
		body = append(body, c.Content...)
	}
	return body, nil
}

// DecodeProposal reads the output of EncodeProposal. Contents are parts of body. The
// decoded proposal has a size in proportion to that of body: decoding ends at the first
// member that no commit may have.
func DecodeProposal(body []byte) (p *versionlog.Proposal, err error) {
	invalid := func(err error) (*versionlog.Proposal, error) {
		if errors.Is(err, versionlog.ErrTooLarge) {
			return nil, err
		}
		return nil, fmt.Errorf("%w: %w", versionlog.ErrInvalid, err)
	}
	if len(body) < 4 {
		return invalid(io.ErrUnexpectedEOF)
	}
	n := binary.BigEndian.Uint32(body)
	rest := body[4:]
	if n > MaxProposal || uint64(n) > uint64(len(rest)) {
		return invalid(fmt.Errorf("JSON of %d bytes", n))
	}
	var w proposal
	d := json.NewDecoder(bytes.NewReader(rest[:n]))
	d.DisallowUnknownFields()
	if err := d.Decode(&w); err != nil {
		return invalid(err)
	}
	if d.More() {
		return invalid(fmt.Errorf("something follows the JSON"))
	}
	rest = rest[n:]
	p = &versionlog.Proposal{
		Key: w.Key, Fresh: w.Fresh, Actor: w.Actor, Session: w.Session, Message: w.Message, Meta: w.Meta, Epoch: w.Epoch,
		Quota: w.Quota, Used: versionlog.Usage(w.Used), Deleted: w.Deleted, Confirmed: w.Confirmed, Event: fromEvent(w.Event), Changes: w.Changes,
	}
	if w.Finished != nil {
		if err := boundRecord(w.Finished); err != nil {
			return invalid(err)
		}
		if p.Finished, err = versionlog.DecodeRecord(w.Finished); err != nil && !errors.Is(err, versionlog.ErrFormat) {
			return nil, fmt.Errorf("%w: the finished commit: %v", versionlog.ErrInvalid, err) // whose kind would be that of damage
		} else if err != nil {
			return invalid(err)
		}
	}
	for i := range p.Changes {
		c := &p.Changes[i]
		if c.Content == nil {
			continue
		}
		if c.Size < 0 || c.Size > int64(len(rest)) {
			return invalid(fmt.Errorf("%.200q: a content of %d bytes, of which %d came", c.Path, c.Size, len(rest)))
		}
		c.Content, rest = rest[:c.Size:c.Size], rest[c.Size:]
	}
	if len(rest) > 0 {
		return invalid(fmt.Errorf("%d bytes that are no content", len(rest)))
	}
	return p, nil
}
