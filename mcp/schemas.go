package mcp

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// The tools, and those that are others where all stores are read-only.
var (
	//go:embed schemas/tools.json
	toolsJSON []byte
	//go:embed schemas/readonly.json
	readOnlyJSON []byte
)

// spec describes a tool.
type spec struct {
	Name        string                     `json:"name"`
	Description string                     `json:"description"`
	Annotations sdk.ToolAnnotations        `json:"annotations"`
	Input       json.RawMessage            `json:"inputSchema"`
	Output      map[string]json.RawMessage `json:"output"` // the properties of the result, besides error; nil: none are promised

	fields []string // names of the arguments
}

// errorSchema is the schema of the result of every tool call that has failed.
const errorSchema = `{"type":"object","properties":{"kind":{"type":"string"},"retry":{"type":"string","enum":["never","after_view","later"]},` +
	`"text":{"type":"string"},"conflict":{"type":"integer"},"unsure":{"type":"boolean"}},"required":["kind","retry","text"]}`

// specs returns the tools for stores of which some, or none, can be written to.
func specs(readOnly bool) []*spec {
	all := readSpecs(toolsJSON)
	if !readOnly {
		return all
	}
	kept := readSpecs(readOnlyJSON)
	for _, s := range all {
		if s.Annotations.ReadOnlyHint {
			kept = append(kept, s)
		}
	}
	return kept
}

func readSpecs(data []byte) []*spec {
	var all []*spec
	if err := json.Unmarshal(data, &all); err != nil {
		panic(fmt.Sprintf("schemas of tools: %v", err)) // they are part of the program
	}
	for _, s := range all {
		var input struct {
			Properties map[string]json.RawMessage `json:"properties"`
		}
		if err := json.Unmarshal(s.Input, &input); err != nil {
			panic(fmt.Sprintf("schema of %s: %v", s.Name, err))
		}
		s.fields = slices.Sorted(maps.Keys(input.Properties))
		if s.Output != nil {
			s.Output["error"] = json.RawMessage(errorSchema)
		}
	}
	return all
}

// tool is s as the SDK has it.
func (s *spec) tool() *sdk.Tool {
	t := &sdk.Tool{Name: s.Name, Description: s.Description, Annotations: &s.Annotations, InputSchema: s.Input}
	if s.Output != nil {
		t.OutputSchema = map[string]any{"type": "object", "properties": s.Output}
	}
	return t
}
