package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"mneme/internal/strictjson"
	"mneme/tools"
)

// maxToolLine is the longest line of input in bytes, unless the stores allow longer ones.
const maxToolLine = 8 << 20

// serveTool answers each line of in, in order, until in ends.
func serveTool(ctx context.Context, m *tools.Memory, in io.Reader, reply func(any) error) error {
	most := maxToolLine
	for _, st := range m.Stores() {
		most = max(most, int(4*st.Limits.MaxMemoryBytes))
	}
	return serveLines(in, most, func(line []byte) any {
		if line == nil {
			return toolError(m, nil, fmt.Sprintf("Error: The line is too long: at most %d bytes.", most))
		}
		return answerTool(ctx, m, line, most)
	}, reply)
}

// toolReply is the answer to a line.
type toolReply struct {
	ID            json.RawMessage `json:"id"`
	*tools.Answer                 // nil: of a control
	CallsLeft     *int            `json:"calls_left,omitempty"`
}

// toolResult is the answer to a tool_use block. The API accepts no other fields.
type toolResult struct {
	Type      string `json:"type"`
	ToolUseID string `json:"tool_use_id"`
	Content   any    `json:"content"`
	IsError   bool   `json:"is_error"`
}

// toolLine is a line of input: the host's fields, and the model's below input.
type toolLine struct {
	id      json.RawMessage
	use     string // id of a tool_use block; else ""
	input   json.RawMessage
	control string
}

// answerTool does the call of a line.
func answerTool(ctx context.Context, m *tools.Memory, line []byte, most int) any {
	one, err := parseToolLine(line, most)
	if err != nil {
		return toolError(m, one.id, "Error: "+err.Error()+`; want {"id": 1, "input": {…}}, {"id": 1, "control": "reset"} or a tool_use block.`)
	}
	if one.control != "" {
		m.Reset()
		return toolReply{ID: one.id, CallsLeft: callsLeft(m)}
	}
	r := m.Call(ctx, one.input)
	answer := r.Answer()
	if one.use != "" {
		return toolResult{Type: "tool_result", ToolUseID: one.use, Content: answer.Content, IsError: answer.IsError}
	}
	return toolReply{ID: one.id, Answer: answer, CallsLeft: callsLeft(m)}
}

// toolError answers a line without a call. It costs no call.
func toolError(m *tools.Memory, id json.RawMessage, text string) toolReply {
	refused := tools.Result{Text: text, Error: tools.Refusal(text)}
	return toolReply{ID: id, Answer: refused.Answer(), CallsLeft: callsLeft(m)}
}

func callsLeft(m *tools.Memory) *int {
	calls, bounded := m.CallsLeft()
	if !bounded {
		return nil
	}
	return &calls
}

// parseToolLine reads a line. It does not check the model's input: Memory.Call does so just
// as strictly, and answers the model.
func parseToolLine(line []byte, most int) (toolLine, error) {
	o, err := strictjson.Parse(line, &strictjson.Limits{Bytes: most, Depth: 32})
	if err != nil {
		return parseOddLine(line, err)
	}
	if o.Has("type") {
		return parseToolUse(o)
	}
	one := toolLine{id: o.Raw("id")}
	if err := strictjson.CheckID(one.id); err != nil {
		one.id = nil
		return one, err
	}
	one.input = o.Raw("input")
	control, hasControl, err := o.OptString("control")
	one.control = control
	switch doneErr := o.Done(); {
	case err != nil:
		return one, err
	case doneErr != nil:
		return one, doneErr
	case one.input == nil && control != "reset":
		return one, errors.New("the line has neither input nor the control reset")
	case one.input != nil && hasControl:
		return one, errors.New("the line has input and control")
	}
	return one, nil
}

// parseToolUse reads a tool_use block of the API. Unknown fields do not concern the model.
func parseToolUse(o *strictjson.Object) (one toolLine, err error) {
	kind, err := o.String("type")
	if err == nil {
		one.use, err = o.String("id")
	}
	var name string
	if err == nil {
		name, err = o.String("name")
	}
	one.input = o.Raw("input")
	switch {
	case err != nil:
		return toolLine{}, err
	case kind != "tool_use", name != "memory", one.input == nil, one.use == "", len(one.use) > strictjson.MaxID:
		return toolLine{}, errors.New("it is no tool_use block of the tool memory")
	}
	return one, nil
}

// parseOddLine reads a line that is not strict JSON. If the model's input is the cause, its
// answer says what is wrong.
func parseOddLine(line []byte, why error) (toolLine, error) {
	var odd struct {
		Type  string          `json:"type"`
		ID    json.RawMessage `json:"id"`
		Input json.RawMessage `json:"input"`
	}
	if err := json.Unmarshal(line, &odd); err != nil || strictjson.CheckID(odd.ID) != nil {
		return toolLine{}, why
	}
	one := toolLine{id: odd.ID, input: odd.Input}
	if odd.Type == "tool_use" {
		if err := json.Unmarshal(odd.ID, &one.use); err != nil {
			return toolLine{}, why
		}
	}
	if odd.Input == nil || strictjson.Check(odd.Input, nil) == nil {
		return one, why
	}
	return one, nil
}
