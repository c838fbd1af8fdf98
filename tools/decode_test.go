package tools

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"mneme/errkind"
)

// TestDecode: each command takes exactly its fields, of their types, and says which it is
// that does not fit.
func TestDecode(t *testing.T) {
	values := map[string]string{
		"path": `"/memories/x"`, "view_range": `[1,2]`, "file_text": `"t"`, "old_str": `"o"`, "new_str": `"n"`,
		"insert_line": `1`, "insert_text": `"t"`, "old_path": `"/memories/x"`, "new_path": `"/memories/y"`,
	}
	input := func(command string, fields map[string]string) string {
		all := []string{`"command":` + fmt.Sprintf("%q", command)}
		for name, value := range fields {
			all = append(all, fmt.Sprintf("%q:%s", name, value))
		}
		slices.Sort(all)
		return "{" + strings.Join(all, ",") + "}"
	}
	refuse := func(data, want string) {
		t.Helper()
		r, e := Documentation.decode([]byte(data), 1<<20)
		if e == nil || e.Error() != want || e.Kind != errkind.Invalid || e.Retry != Never {
			t.Errorf("%s: %+v, %v; want %s", data, r, e, want)
		}
	}
	for _, command := range commandNames {
		whole := map[string]string{}
		for _, f := range commands[command] {
			whole[f.name] = values[f.name]
		}
		if r, e := Documentation.decode([]byte(input(command, whole)), 1<<20); e != nil || r.command != command {
			t.Errorf("%s: %v, %v", command, r, e)
		}
		for _, f := range commands[command] {
			less := clone(whole)
			delete(less, f.name)
			if f.optional {
				if _, e := Documentation.decode([]byte(input(command, less)), 1<<20); e != nil {
					t.Errorf("%s without %s: %v", command, f.name, e)
				}
			} else {
				refuse(input(command, less), fmt.Sprintf("Error: The field `%s` is missing; %s needs it.", f.name, command))
			}
			wrong := clone(whole)
			wrong[f.name] = `{"secret":1}`
			want := map[byte]string{'"': "a string", '1': "a whole number", '[': "an array of 2 whole numbers"}[values[f.name][0]]
			refuse(input(command, wrong), fmt.Sprintf("Error: The field `%s` must be %s, not an object.", f.name, want))
			refuse(strings.TrimSuffix(input(command, whole), "}")+fmt.Sprintf(`,"%s":%s}`, f.name, values[f.name]),
				fmt.Sprintf("Error: The field `%s` is there twice.", f.name))
		}
		more := clone(whole)
		more["Path"] = `"secret"`
		refuse(input(command, more), fmt.Sprintf("Error: The field `Path` is unknown; %s takes %s.", command, fieldNames(commands[command])))
	}
	refuse(`{"command":"clear_all"}`, `Error: Unknown command "clear_all". The commands are view, create, str_replace, insert, delete and rename.`)
	refuse(`{"command":"View","path":"/memories"}`, `Error: Unknown command "View". The commands are view, create, str_replace, insert, delete and rename.`)
	for _, given := range []struct{ input, field string }{
		{`{"command":"create","path":"/memories/a","file_text":"secret\u0000"}`, "file_text"},
		{`{"command":"str_replace","path":"/memories/a","old_str":"secret\u0000","new_str":"\u0000"}`, "new_str"},
		{`{"command":"insert","path":"/memories/a","insert_line":1,"insert_text":"\u0000secret"}`, "insert_text"},
	} {
		refuse(given.input, fmt.Sprintf("Error: The field `%s` has the character U+0000, which a view cannot show; leave it out.", given.field))
	}
	refuse(`{"command":"view","path":"/memories"`, "Error: The input is not valid JSON.")
	refuse(`"view"`, "Error: The input is not a JSON object.")
	refuse("{\"command\":\"view\",\"path\":\"/memories/\xff\"}", "Error: The input is not valid Unicode.")
	refuse(`{"command":"view","path":"/memories/\ud800"}`, "Error: The input is not valid Unicode.")
	refuse(`{"command":"view","path":`+strings.Repeat("[", 20)+strings.Repeat("]", 20)+`}`, "Error: The input is nested too deeply.")
	refuse(`{"command":"view","path":"`+strings.Repeat("x", 1<<20)+`"}`, "Error: The input is too long: at most 1048576 bytes.")
	refuse(`{"command":"view","path":[`+strings.Repeat("1,", 10_000)+`1]}`, "Error: The input has too many values.")
}

func clone(fields map[string]string) map[string]string {
	more := map[string]string{}
	for name, value := range fields {
		more[name] = value
	}
	return more
}

// TestSchema: the schema has the fields that are decoded.
func TestSchema(t *testing.T) {
	var schema struct {
		OneOf []struct {
			Properties           map[string]json.RawMessage
			Required             []string
			AdditionalProperties bool
		}
	}
	if err := json.Unmarshal(Schema(), &schema); err != nil {
		t.Fatal(err)
	}
	for i, command := range commandNames {
		form := schema.OneOf[i]
		if len(form.Properties) != 1+len(commands[command]) || string(form.Properties["command"]) != fmt.Sprintf(`{"type":"string","const":%q}`, command) || form.AdditionalProperties {
			t.Errorf("%s: %+v", command, form)
		}
		for _, f := range commands[command] {
			if form.Properties[f.name] == nil || slices.Contains(form.Required, f.name) == f.optional {
				t.Errorf("%s: field %s: %+v", command, f.name, form)
			}
		}
	}
	if len(schema.OneOf) != len(commands) || len(run) != len(commands) || !json.Valid(Declaration()) {
		t.Errorf("%d forms of %d commands, of which %d are run", len(schema.OneOf), len(commands), len(run))
	}
}

// TestSecret: whatever prints a Secret prints its length.
func TestSecret(t *testing.T) {
	s := NewSecret("canary")
	in := struct {
		S Secret
		P *Secret
	}{s, &s}
	data, err := json.Marshal(in)
	var log strings.Builder
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "s", s, "in", in)
	slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "s", s, "in", in)
	shown := fmt.Sprintf("%v %+v %#v %s %q %x %d %v %+v %#v", s, s, s, s, s, s, s, in, in, in) + string(data) + log.String()
	if err != nil || strings.Contains(shown, "canary") || strings.Contains(shown, "63616e617279") || !strings.Contains(shown, "[6 bytes]") {
		t.Errorf("it shows %s, %v", shown, err)
	}
}

// FuzzDecode: whatever is called, nothing panics, texts are Unicode, and the store changes by
// one of the commands in full only.
func FuzzDecode(f *testing.F) {
	for _, data := range []string{
		`{"command":"view","path":"/memories","view_range":[1,-1]}`, `{"command":"create","path":"/memories/x","file_text":"t"}`,
		`{"command":"str_replace","path":"/memories/f","old_str":"a","new_str":"b"}`, `{"command":"insert","path":"/memories/f","insert_line":0,"insert_text":"b"}`,
		`{"command":"delete","path":"/memories/f"}`, `{"command":"rename","old_path":"/memories/f","new_path":"/memories/g"}`,
		`{"command":"delete","path":"/memories/%2e%2e/f"}`, `{"command":"create","path":"/memories/x","file_text":"t","path":"/memories/y"}`, `{}`, `[`, "\xff",
	} {
		f.Add([]byte(data))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		r := newRig(t, nil)
		r.theirs("/f", "a\n")
		got := r.Call(context.Background(), data)
		if !utf8.ValidString(got.Text) || got.Text == "" {
			t.Fatalf("%q: %q", data, got.Text)
		}
		tip, err := r.stores[0].Tip(t.Context())
		r.must(err)
		if (tip.Seq == 1) != (len(got.Made) == 0) || got.Error != nil && tip.Seq != 1 {
			t.Fatalf("%q: %+v, and there are %d commits", data, got, tip.Seq)
		}
		if tip.Seq == 1 {
			return
		}
		var input map[string]any
		if err := json.Unmarshal(data, &input); err != nil {
			t.Fatalf("%q is done: %v", data, err)
		}
		command, _ := input["command"].(string)
		for name := range input {
			if name != "command" && !slices.ContainsFunc(commands[command], func(f field) bool { return f.name == name }) {
				t.Fatalf("%q is done with the field %q", data, name)
			}
		}
		for v, err := range r.stores[0].Heads(t.Context(), "/") {
			r.must(err)
			if strings.Contains(v.Path, "..") && strings.Contains(v.Path, "/../") {
				t.Fatalf("%q made %s", data, v.Path)
			}
		}
	})
}
