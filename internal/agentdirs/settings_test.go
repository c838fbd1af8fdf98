package agentdirs

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestSetString holds what becomes of settings to the byte.
func TestSetString(t *testing.T) {
	deep := []string{"agents", "defaults", "workspace"}
	for _, test := range []struct {
		text string
		key  []string
		want string
	}{
		{"", []string{"k"}, "{\n  \"k\": \"v\"\n}\n"},
		{" \n", []string{"a", "b"}, "{\n  \"a\": {\n    \"b\": \"v\"\n  }\n}\n"},
		{"{}", []string{"k"}, "{\n  \"k\": \"v\"\n}"},
		{`{"a":1}`, []string{"k"}, `{"k": "v", "a":1}`},
		{"{\n\t\"a\" : [1, {\"k\": 2}]\n}\n", []string{"k"}, "{\n\t\"k\": \"v\",\n\t\"a\" : [1, {\"k\": 2}]\n}\n"},
		{"{\r\n\r\n  \"a\": 1\r\n}\r\n", []string{"k"}, "{\r\n\r\n  \"k\": \"v\",\r\n\r\n  \"a\": 1\r\n}\r\n"},
		{"{\r\n  \"a\": {}\r\n}", []string{"a", "b"}, "{\r\n  \"a\": {\r\n    \"b\": \"v\"\r\n  }\r\n}"},
		{`{"a": {"k": 1}, "k" : "old" }`, []string{"k"}, `{"a": {"k": 1}, "k" : "v" }`},
		{"{\n    \"agents\": {\n        \"list\": []\n    }\n}", deep, "{\n    \"agents\": {\n        \"defaults\": {\n          \"workspace\": \"v\"\n        },\n        \"list\": []\n    }\n}"},
		{`{"agents":{"defaults":{"model":"x","workspace":"\u00e9"}}}`, deep, `{"agents":{"defaults":{"model":"x","workspace":"v"}}}`},
	} {
		edited, edit, err := SetString([]byte(test.text), test.key, "v")
		if err != nil || string(edited) != test.want {
			t.Errorf("%s: %v,\n%s\nwant\n%s", test.text, err, edited, test.want)
			continue
		}
		if before, ok := edit.Undo(edited); !ok || string(before) != test.text {
			t.Errorf("%s: undone it is %s, %t", test.text, before, ok)
		}
		if _, ok := edit.Undo(append(edited, ' ')); ok {
			t.Errorf("%s: another text is undone", test.text)
		}
	}
}

// TestNotSettings holds that nothing is changed that is not plain JSON, or has no place for the key.
func TestNotSettings(t *testing.T) {
	for text, plain := range map[string]bool{
		"// comment\n{}": false, `{"k": 1, "k": 2}`: false, `{k: 1}`: false, "{": false, `{"k": "a",}`: false, "\xff": false,
		"[]": true, `"k"`: true, `{"k": 1}`: true, `{"k": null}`: true,
	} {
		if _, _, err := SetString([]byte(text), []string{"k"}, "v"); err == nil || errors.Is(err, ErrNotJSON) == plain {
			t.Errorf("%s: %v", text, err)
		}
	}
	if _, _, err := SetString([]byte(`{"a": null}`), []string{"a", "b"}, "v"); err == nil {
		t.Error("a key below null")
	}
}

// TestSettingsOfAnyForm sets, undoes and takes out a key in settings of any form.
func TestSettingsOfAnyForm(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		names := rapid.SampledFrom([]string{"a", "b", "k", "\"", "é", ""})
		value := rapid.Map(rapid.MapOf(names, rapid.SampledFrom([]any{1.5, "x,}", []any{"{"}, map[string]any{}})), func(m map[string]any) any { return m })
		settings := rapid.MapOf(names, value).Draw(t, "settings")
		if a, there := settings["a"].(map[string]any); there {
			delete(a, "k")
		}
		text, err := json.MarshalIndent(settings, "", rapid.SampledFrom([]string{"", "  ", "\t"}).Draw(t, "indent"))
		if rapid.Bool().Draw(t, "compact") {
			text, err = json.Marshal(settings)
		}
		if err != nil {
			t.Fatal(err)
		}
		edited, edit, err := SetString(text, []string{"a", "k"}, "v")
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if got, there, err := StringAt(edited, []string{"a", "k"}); got != "v" || !there || err != nil {
			t.Fatalf("%s: %q, %t, %v", edited, got, there, err)
		}
		if before, ok := edit.Undo(edited); !ok || string(before) != string(text) {
			t.Fatalf("undone: %s, want %s", before, text)
		}
		without, err := Unset(edited, []string{"a", "k"})
		if err != nil {
			t.Fatalf("%s: %v", edited, err)
		}
		want := settings
		if _, there := settings["a"]; !there { // the object that was made stays
			want["a"] = map[string]any{}
		}
		var left map[string]any
		if err := json.Unmarshal(without, &left); err != nil {
			t.Fatalf("%s\n%v", without, err)
		}
		var wanted map[string]any
		plain, _ := json.Marshal(want)
		_ = json.Unmarshal(plain, &wanted)
		if !reflect.DeepEqual(left, wanted) {
			t.Fatalf("taken out of %s:\n%s", edited, without)
		}
	})
}

func TestUnsetLeavesCommas(t *testing.T) {
	for text, want := range map[string]string{
		`{"k": "v"}`: `{}`, `{"k": "v", "a": 1}`: `{"a": 1}`, `{"a": 1, "k": "v"}`: `{"a": 1}`, `{"a": 1, "k": "v", "b": 2}`: `{"a": 1, "b": 2}`, `{"a": 1}`: `{"a": 1}`,
	} {
		if got, err := Unset([]byte(text), []string{"k"}); err != nil || strings.ReplaceAll(string(got), " }", "}") != want {
			t.Errorf("%s: %s, %v", text, got, err)
		}
	}
}
