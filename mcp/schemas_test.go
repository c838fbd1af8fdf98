package mcp

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
)

// checkFields fails the test unless the structured result of a tool is what its schema says,
// with no field that it does not name.
func (c *client) checkFields(name string, t *toolResult) {
	c.Helper()
	if t.ResultType == "input_required" {
		return
	}
	i := slices.IndexFunc(c.face.specs(), func(s *spec) bool { return s.Name == name })
	if i < 0 {
		return
	}
	promised := c.face.specs()[i].tool().OutputSchema
	if promised == nil { // what only repeats the text is left out
		if text, _ := json.Marshal(t.text()); !t.IsError && t.Fields != nil && t.field("made") == nil && t.field("settled") == nil {
			c.Errorf("%s returned %s beside %s", name, t.Fields, text)
		}
		return
	}
	output, err := json.Marshal(promised)
	c.must(err)
	// No field beyond those: a program relies on what is named.
	closed := strings.ReplaceAll(string(output), `"properties":`, `"additionalProperties":false,"properties":`)
	var schema jsonschema.Schema
	c.must(json.Unmarshal([]byte(closed), &schema))
	resolved, err := schema.Resolve(nil)
	c.must(err)
	var value any
	c.must(json.Unmarshal(t.Fields, &value))
	if err := resolved.Validate(value); err != nil {
		c.Errorf("%s returned %s: %v", name, t.Fields, err)
	}
}

// described is a tool as a client has it.
type described struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Input       json.RawMessage `json:"inputSchema"`
	Output      json.RawMessage `json:"outputSchema"`
	Annotations struct {
		ReadOnly    *bool `json:"readOnlyHint"`
		Destructive *bool `json:"destructiveHint"`
		Idempotent  *bool `json:"idempotentHint"`
		OpenWorld   *bool `json:"openWorldHint"`
	} `json:"annotations"`
}

func (c *client) described() []described {
	c.Helper()
	var list struct{ Tools []described }
	c.must(json.Unmarshal(c.do("tools/list", nil), &list))
	return list.Tools
}

// TestTools says which tools there are, with their hints.
func TestTools(t *testing.T) {
	type hints struct{ readOnly, destructive, idempotent bool }
	reads, writes := hints{true, false, true}, hints{false, true, true}
	for _, tc := range []struct {
		name   string
		stores []string
		want   map[string]hints
	}{
		{"writable", []string{"notes", "docs:ro"}, map[string]hints{
			"memory": {false, true, false}, "list": reads, "read": reads, "write": writes, "search": reads, "history": reads, "diff": reads,
			"restore": writes, "conflicts": {false, true, false},
		}},
		{"read-only", []string{"notes:ro", "docs:ro"}, map[string]hints{
			"memory": reads, "list": reads, "read": reads, "search": reads, "history": reads, "diff": reads,
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := newRig(t, &rigOptions{stores: tc.stores}).client()
			got := map[string]hints{}
			for _, d := range c.described() {
				a := d.Annotations
				if a.ReadOnly == nil || a.Destructive == nil || a.Idempotent == nil || a.OpenWorld == nil || *a.OpenWorld {
					t.Errorf("%s: hints are missing, or its world is open: %+v", d.Name, a)
					continue
				}
				got[d.Name] = hints{*a.ReadOnly, *a.Destructive, *a.Idempotent}
			}
			if len(got) != len(tc.want) {
				t.Errorf("tools are %v, want %v", got, tc.want)
			}
			for name, want := range tc.want {
				if got[name] != want {
					t.Errorf("%s: hints are %+v, want %+v", name, got[name], want)
				}
			}
		})
	}
}

// TestTokens bounds what the tools take of a model's context: names, descriptions and schemas
// of their input.
func TestTokens(t *testing.T) {
	c := newRig(t, nil).client()
	total, whole := 0, 0
	for _, d := range c.described() {
		seen, err := json.Marshal(map[string]any{"name": d.Name, "description": d.Description, "inputSchema": d.Input})
		if err != nil {
			t.Fatal(err)
		}
		total += tokens(string(seen))
		whole += tokens(string(seen)) + tokens(string(d.Output))
	}
	t.Logf("%d tokens; %d with the schemas of results", total, whole)
	if total > 1500 {
		t.Errorf("the tools take %d tokens, want at most 1,500", total)
	}
}

// TestSchemasHaveTypes: some models and hosts take no list of values without a type.
func TestSchemasHaveTypes(t *testing.T) {
	var look func(at string, value any)
	look = func(at string, value any) {
		switch v := value.(type) {
		case map[string]any:
			_, hasEnum := v["enum"].([]any)
			if _, hasType := v["type"]; hasEnum && !hasType {
				t.Errorf("%s has values and no type", at)
			}
			for name, inner := range v {
				look(at+"."+name, inner)
			}
		case []any:
			for _, inner := range v {
				look(at, inner)
			}
		}
	}
	for _, c := range []*client{newRig(t, nil).client(), newRig(t, &rigOptions{stores: []string{"notes:ro"}}).client()} {
		for _, d := range c.described() {
			for _, schema := range []json.RawMessage{d.Input, d.Output} {
				var value any
				if len(schema) > 0 && json.Unmarshal(schema, &value) != nil {
					t.Errorf("%s: %s", d.Name, schema)
				}
				look(d.Name, value)
			}
		}
	}
}

var tokenParts = regexp.MustCompile(`[A-Za-z]+|[0-9]{1,3}|[^\sA-Za-z0-9]+|\n`)

// tokens counts more tokens than tokenizers make of a text: one for a word of seven letters,
// and one for two signs.
func tokens(text string) int {
	n := 0
	for _, part := range tokenParts.FindAllString(text, -1) {
		switch first := part[0]; {
		case first|0x20 >= 'a' && first|0x20 <= 'z':
			n++
			if len(part) > 7 {
				n += (len(part)+4)/5 - 1
			}
		case first >= '0' && first <= '9', first == '\n':
			n++
		default:
			n += (len(part) + 1) / 2
		}
	}
	return n
}

// TestSchemas says that the schemas of arguments name what the tools take, and no more.
func TestSchemas(t *testing.T) {
	c := newRig(t, nil).client()
	for _, d := range c.described() {
		var s struct {
			Type                 string
			Properties           map[string]json.RawMessage
			AdditionalProperties *bool
		}
		if err := json.Unmarshal(d.Input, &s); err != nil || s.Type != "object" || s.AdditionalProperties == nil || *s.AdditionalProperties {
			t.Errorf("%s: %s, %v", d.Name, d.Input, err)
		}
		if d.Name == "memory" { // which fields it takes depends on the command
			continue
		}
		c.fails("The field `sudo` is unknown; "+d.Name+" takes", "invalid", d.Name, append(requiredOf(d.Name), "sudo", true)...)
		for name, property := range s.Properties {
			if strings.Contains(string(property), `"type": [`) || strings.Contains(string(property), `"type":[`) {
				t.Errorf("%s: %s is %s; not every host knows several types", d.Name, name, property)
			}
			got := c.tool(d.Name, append(requiredOf(d.Name), name, []string{"wrong"})...)
			if !got.IsError || !strings.Contains(got.text(), "The field `"+name+"` must be ") {
				t.Errorf("%s with a wrong %s: %q", d.Name, name, got.text())
			}
		}
	}
}

// requiredOf are arguments that a tool wants.
func requiredOf(tool string) []any {
	return map[string][]any{
		"read": {"path", "/memories/x"}, "write": {"path", "/memories/x", "text", "x"}, "search": {"query", "x"}, "diff": {"path", "/memories/x"},
		"restore": {"path", "/memories/x", "version", "1"}, "conflicts": {"action", "resolve", "id", 1, "take", "text", "text", "x"},
	}[tool]
}

// TestLongArguments says that no argument, however long, comes back whole in an error, or
// becomes more than a file may hold.
func TestLongArguments(t *testing.T) {
	c := newRig(t, nil).client()
	c.theirs("/x", "x")
	long := strings.Repeat("x", 1<<18)
	for _, d := range c.described() {
		var s struct {
			Properties map[string]struct{ Type string }
		}
		if err := json.Unmarshal(d.Input, &s); err != nil {
			t.Fatal(err)
		}
		for name, property := range s.Properties {
			if d.Name == "memory" || property.Type != "string" && name != "action" && name != "take" {
				continue
			}
			got := c.tool(d.Name, append(requiredOf(d.Name), name, long)...)
			if !got.IsError || len(got.Fields)+len(got.text()) > 32<<10 {
				t.Errorf("%s with a long %s: %v, %d bytes: %.300s", d.Name, name, got.IsError, len(got.Fields)+len(got.text()), got.text())
			}
		}
	}
	m := c.try("resources/read", map[string]any{"uri": "mneme://notes/" + long})
	if m.Error == nil || len(m.Error.Data) > 32<<10 {
		t.Errorf("a long URI: %s, %d bytes", m.Result, len(m.Error.Data))
	}
}
