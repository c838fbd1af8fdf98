package plugin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"mneme/internal/strictjson"
)

// Reply is the answer to a line.
type Reply struct {
	ID     json.RawMessage `json:"id"`     // of the line; null where that cannot be told
	Result any             `json:"result"` // a Recall, Remembered or Health; of a line that is none, its Provider and Diagnostics
}

// nothing is the result of a line that asks for nothing.
type nothing struct {
	Provider    About       `json:"provider"`
	Diagnostics Diagnostics `json:"diagnostics"`
}

// MaxRequest returns how many bytes a request may have.
func (p *Provider) MaxRequest() int {
	if p.opts.MaxRequest != 0 {
		return p.opts.MaxRequest
	}
	most := int64(8 << 20)
	for _, place := range p.memory.Places() {
		most = max(most, 4*place.Store.Info().Limits.MaxMemoryBytes)
	}
	return int(most)
}

// Answer does what a line asks for: {"id": 1, "method": "recall", "params": {…}}. A line that
// cannot be read is answered, too; nil is one that was longer than MaxRequest.
func (p *Provider) Answer(ctx context.Context, line []byte) (reply Reply) {
	began := time.Now()
	method := ""
	defer p.catch(func() { reply.Result = p.refuse(began, method, Later, reasonPanic) })
	if line == nil {
		return Reply{Result: p.refuse(began, "", Never, p.reasonTooLong())}
	}
	o, err := strictjson.Parse(line, p.jsonLimits())
	if err != nil {
		return p.answerOdd(began, line, err)
	}
	id := o.Raw("id")
	if err := strictjson.CheckID(id); err != nil {
		return Reply{Result: p.refuse(began, "", Never, "invalid: "+err.Error())}
	}
	reply.ID = id
	method, err = o.String("method")
	var params *strictjson.Object
	if err == nil {
		params, _, err = o.OptObject("params")
	}
	if err == nil {
		err = o.Done()
	}
	if err != nil {
		reply.Result = p.refuse(began, method, Never, "invalid: "+err.Error())
		return reply
	}
	if params == nil {
		params, _ = strictjson.Parse([]byte("{}"), nil)
	}
	reply.Result = p.dispatch(ctx, began, method, params)
	return reply
}

// dispatch calls a method.
func (p *Provider) dispatch(ctx context.Context, began time.Time, method string, params *strictjson.Object) any {
	var err error
	switch method {
	case "recall":
		var r Request
		if r, err = decodeRequest(params); err == nil {
			return p.Recall(ctx, r)
		}
	case "remember":
		var b Batch
		if b, err = decodeBatch(params); err == nil {
			return p.Remember(ctx, b)
		}
	case "health":
		if err = params.Done(); err == nil {
			return p.Health(ctx)
		}
	default:
		err = errors.New("field method: it must be recall, remember or health")
	}
	return p.refuse(began, method, Never, "invalid: "+err.Error())
}

// answerOdd answers a line that is not strict JSON, with its id if that can be told.
func (p *Provider) answerOdd(began time.Time, line []byte, why error) Reply {
	var odd struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
	}
	if err := json.Unmarshal(line, &odd); err != nil || strictjson.CheckID(odd.ID) != nil || strictjson.Check(odd.ID, nil) != nil {
		odd.ID, odd.Method = nil, ""
	}
	return Reply{ID: odd.ID, Result: p.refuse(began, odd.Method, Never, "invalid: "+why.Error())}
}

// refuse is the result of a request that cannot be done, in the form of the method's
// result.
func (p *Provider) refuse(began time.Time, method string, retry Retry, reason string) any {
	switch method {
	case "recall":
		return p.noRecall(began, retry, reason)
	case "remember":
		return p.forgot(began, nil, Refused, retry, reason)
	case "health":
		return p.newCheck().answer(began, reason)
	}
	d := p.diagnostics(began, reason)
	d.Retry = retry
	return nothing{Provider: p.about(), Diagnostics: d}
}

// jsonLimits bound a request.
func (p *Provider) jsonLimits() *strictjson.Limits { return &strictjson.Limits{Bytes: p.MaxRequest()} }

func (p *Provider) reasonTooLong() string {
	return fmt.Sprintf("too_large: the request is longer than %d bytes", p.MaxRequest())
}
