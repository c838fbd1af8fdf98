package tools

import (
	"encoding/json"
	"fmt"
	"strings"
)

// commandNames are the commands in the order in which they are told.
var commandNames = []string{"view", "create", "str_replace", "insert", "delete", "rename"}

// Declaration returns what tells the Messages API of the tool.
func Declaration() json.RawMessage {
	return json.RawMessage(`{"type":"memory_20250818","name":"memory"}`)
}

// Schema returns the JSON schema (2020-12) of the input of a call: one of the commands, with
// its fields and no others.
func Schema() json.RawMessage {
	forms := make([]string, len(commandNames))
	for i, command := range commandNames {
		properties := []string{fmt.Sprintf(`"command":{"type":"string","const":%q}`, command)}
		required := []string{`"command"`}
		for _, f := range commands[command] {
			properties = append(properties, fmt.Sprintf(`%q:%s`, f.name, f.schema))
			if !f.optional {
				required = append(required, fmt.Sprintf("%q", f.name))
			}
		}
		forms[i] = fmt.Sprintf(`{"type":"object","properties":{%s},"required":[%s],"additionalProperties":false}`,
			strings.Join(properties, ","), strings.Join(required, ","))
	}
	return json.RawMessage(`{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","oneOf":[` + strings.Join(forms, ",") + `]}`)
}
