package tools

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"mneme/errkind"
	"mneme/internal/testing/logfault"
	"mneme/session"
)

// canary is in everything that a memory holds or is asked about.
const canary = "kanarienvogel"

// TestCanary: what memories hold, and what is asked about it, is in results and in what is
// kept of lost texts, and nowhere else.
func TestCanary(t *testing.T) {
	var log bytes.Buffer
	logger := slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	r := newRig(t, &rigOptions{tools: Options{Logger: logger}, session: session.Options{Logger: logger}})
	r.do("File created", "create", "path", "/memories/f", "file_text", "a "+canary+"\n")
	r.fail("Error: File", "create", "path", "/memories/f", "file_text", canary)
	r.do("The memory file", "str_replace", "path", "/memories/f", "old_str", "a "+canary, "new_str", "b "+canary)
	none := r.fail("No replacement", "str_replace", "path", "/memories/f", "old_str", "no "+canary, "new_str", canary)
	r.do("The file", "insert", "path", "/memories/f", "insert_line", 0, "insert_text", canary)
	r.fail("No replacement", "str_replace", "path", "/memories/f", "old_str", canary, "new_str", canary)
	viewed := r.do("Here's", "view", "path", "/memories/f")
	r.theirs("/f", "theirs "+canary)
	r.fail("Error: /memories/f changed", "insert", "path", "/memories/f", "insert_line", 0, "insert_text", canary)
	r.fail("Error: The field `file_text` must", "create", "path", "/memories/g", "file_text", []string{canary})
	for _, data := range []string{`{"command":"create","path":"/memories/g","file_text":"` + canary, `["` + canary + `"]`, `{"command":"view","view_range":"` + canary + `"}`, `{"file_text":"` + canary + `","file_text":"` + canary + `"}`} {
		if got := r.Call(t.Context(), json.RawMessage(data)); got.Error == nil || strings.Contains(got.Text, canary) {
			t.Errorf("%s: %q", data, got.Text)
		}
	}
	r.log.SetFates(logfault.Unheard)
	r.fail("Error: The store did not answer", "create", "path", "/memories/h", "file_text", canary)
	r.log.Next(logfault.BeforeCommit, func() { panic(canary) })
	broken := r.fail("Error: Something is broken here", "create", "path", "/memories/i", "file_text", canary)
	if !broken.Error.Unsure || broken.Error.Kind != errkind.Unknown {
		t.Errorf("%+v", broken.Error)
	}
	r.do("File created", "create", "path", "/memories/j", "file_text", "what comes after") // no claim is left behind
	for _, q := range []Query{{Text: NewSecret(canary)}, {Text: NewSecret("(" + canary), Regexp: true}} {
		_, c, err := r.Search(t.Context(), q)
		if text := fmt.Sprint(c, err); strings.Contains(text, canary) {
			t.Errorf("of a search it says %s", text)
		}
	}
	for what, text := range map[string]string{
		"the log": log.String(), "the errors": string(r.sessions[0].Journal().Lines()), "what is kept beside the texts": aboutKept(t, r), "the history": historyOf(t, r),
	} {
		if strings.Contains(text, canary) || text == "" {
			t.Errorf("%s has %s", what, text)
		}
	}
	if !strings.Contains(none.Text, canary) || !strings.Contains(viewed.Text, canary) {
		t.Error("the test sees nothing: results have no canary")
	}
	_, kept, err := r.sessions[0].Conflicts().Get(1)
	if err != nil || !bytes.Contains(kept.Yours, []byte(canary)) || !bytes.Contains(kept.Theirs, []byte(canary)) {
		t.Errorf("the test sees nothing: what is kept is %q, %v", kept, err)
	}
	if !strings.Contains(log.String(), `"command":"insert","kind":"conflict"`) || !strings.Contains(log.String(), `"msg":"panic","type":"string"`) {
		t.Errorf("the test sees nothing: the log is %s", log.String())
	}
}

func aboutKept(t *testing.T, r *rig) string {
	t.Helper()
	list, err := r.sessions[0].Conflicts().List(true)
	r.must(err)
	data, err := json.Marshal(list)
	r.must(err)
	return string(data)
}

// historyOf is all that the store's history has but for contents.
func historyOf(t *testing.T, r *rig) string {
	t.Helper()
	var all strings.Builder
	for c, err := range r.stores[0].Commits(t.Context(), 0) {
		r.must(err)
		fmt.Fprintf(&all, "%+v\n", c)
	}
	return all.String()
}

// TestErrors: every error of a store has a text, which says whether a retry can help, and
// has no details that only the operator may know.
func TestErrors(t *testing.T) {
	m := newRig(t, nil).Memory
	a := &address{shown: "/memories/f"}
	for _, kind := range errkind.All() {
		for _, changes := range []bool{false, true} {
			err := fmt.Errorf("put: %w: arn:aws:s3:::bucket", errkind.New(kind, "/home/operator/secret"))
			e := m.explain(err, a.shown, changes)
			if strings.Contains(e.text, "arn:") || strings.Contains(e.text, "operator") || !strings.HasPrefix(strings.TrimPrefix(e.text, "Error: "), strings.ToUpper(strings.TrimPrefix(e.text, "Error: ")[:1])) && !strings.Contains(e.text, "/memories/f") {
				t.Errorf("%v: %q", kind, e.text)
			}
			if e.Unsure != (changes && !kind.Final()) || e.Unsure && strings.Contains(e.text, "nothing was changed") || e.Kind != kind {
				t.Errorf("%v: %+v", kind, e)
			}
			helps := strings.Contains(e.text, "Trying again later can help")
			asks := strings.Contains(e.text, "View ") // before another try
			if helps != (e.Retry == Later) || asks != (e.Retry == AfterView) || kind.Retryable() && e.Retry == Never || kind == errkind.Corrupt && e.Retry != Never {
				t.Errorf("%v, %v: %q", kind, e.Retry, e.text)
			}
		}
	}
}
