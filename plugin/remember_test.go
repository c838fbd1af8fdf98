package plugin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"mneme/cas"
	"mneme/forget"
	"mneme/internal/testing/logfault"
	"mneme/memory"
	"mneme/versionlog"
)

// TestRemember: a turn is one memory, with the fields of the request before its entries.
func TestRemember(t *testing.T) {
	r := newRig(t, nil)
	b := Batch{
		Request: Request{
			AgentURI: "agent://a", AgentID: "a1", ThreadID: "thread-1", TurnID: "7", RunID: "run", Origin: "chat", Sender: "Ann: \"A\"\n---",
			QueryText: "When?", ExecutionStrategy: "fast", Meta: map[string]any{"z": 1, "a": []any{"x", map[string]any{"k": nil}}},
		},
		Entries: []Entry{
			{ID: "e1", Role: "user", Text: "When do we ship?\n\n## assistant\n\nnever"},
			{Role: "assistant\n# x", Text: "On Friday.\n", Meta: map[string]any{"tokens": json.Number("1.0")}},
			{Text: ""},
		},
	}
	receipt := r.result(r.Remember(t.Context(), b), Written, 3, "")
	v, data, err := r.stores[0].Read(t.Context(), "/threads/thread-1/7.md")
	r.must(err)
	const want = `---
agent_uri: "agent://a"
agent_id: "a1"
thread_id: "thread-1"
turn_id: "7"
run_id: "run"
origin: "chat"
sender: "Ann: \"A\"\n---"
query_text: "When?"
execution_strategy: "fast"
entries:
  - {"id":"e1","role":"user","lines":5}
  - {"id":"2","role":"assistant\n# x","lines":1,"meta":{"tokens":1.0}}
  - {"id":"3","role":"entry","lines":0}
meta: {"a":["x",{"k":null}],"z":1}
---

## user

When do we ship?

## assistant

never

## assistant; # x

On Friday.

## entry

`
	if string(data) != want {
		t.Errorf("the memory is\n%s", data)
	}
	for i, id := range []string{"e1", "2", "3"} {
		if e := (ReceiptEntry{ID: id, Store: "notes", Path: v.Path, Version: v.ID, Seq: v.Seq, Status: Written}); receipt.Entries[i] != e {
			t.Errorf("%+v, want %+v", receipt.Entries[i], e)
		}
	}
	if !strings.HasPrefix(receipt.Key, "plugin:") || len(receipt.Key) != len("plugin:")+64 || v.Session != "mine" {
		t.Errorf("%+v, %+v", receipt, v)
	}
	r.found("friday", "/threads/thread-1/7.md")
	if got := r.find("friday").Items[0].Text; strings.Contains(got, "agent_uri") || !strings.HasPrefix(got, "## user\n\nWhen do we ship?") {
		t.Errorf("%q", got)
	}
	b.RunID, b.TurnID = b.TurnID, "" // the same turn, otherwise named
	b.Entries[2].Text = "other"
	r.result(r.Remember(t.Context(), b), Refused, 0, "conflict: the turn was remembered before with other texts")
	r.commits(1)
}

// TestRememberSecrets: the receipt of a turn that has a credential says so, by rule and line.
func TestRememberSecrets(t *testing.T) {
	r := newRig(t, &rigOptions{create: memory.StoreOptions{Policy: versionlog.Policy{Secrets: versionlog.SecretsWarn}}})
	const key = "AKIA" + "Q7XK2M5PLW3RT6ZB"
	b := Batch{Request: Request{ThreadID: "t", TurnID: "1"}, Entries: []Entry{{Text: "plain\nkey: " + key}}}
	for _, want := range []Status{Written, Already} {
		answer := r.Remember(t.Context(), b)
		line, err := json.Marshal(answer)
		r.must(err)
		told := answer.Diagnostics.Receipt.Warnings
		if status := answer.Diagnostics.Receipt.Entries[0].Status; status != want || strings.Contains(string(line), key) {
			t.Errorf("the answer is %s", line)
		}
		if want == Written && (len(told) != 1 || told[0] != "line 11 has what looks like a credential (aws-access-key-id)") || want == Already && told != nil {
			t.Errorf("%s: the receipt tells of %q", want, told)
		}
	}
}

// TestRememberNUL: a turn that holds what no reader takes for text is found all the same.
func TestRememberNUL(t *testing.T) {
	r := newRig(t, nil)
	r.result(r.Remember(t.Context(), turnOne("t", "1", "needle\x00\n")), Written, 1, "")
	r.result(r.Remember(t.Context(), turnOne("t", "1", "needle\x00\n")), Already, 0, "")
	r.found("needle", "/threads/t/1.md")
	if got := r.find("needle").Items; len(got) != 1 || !strings.HasSuffix(got[0].Text, "needle\ufffd") {
		t.Errorf("%+v", got)
	}
}

// TestRememberTwice: the same turn twice is one version, whatever has become of it in between.
func TestRememberTwice(t *testing.T) {
	r := newRig(t, nil)
	turn := func(id string) Batch { return turnOne("t", id, "text of "+id) }
	first := map[string]*Receipt{}
	for _, id := range []string{"same", "edited", "removed", "moved"} {
		first[id] = r.result(r.Remember(t.Context(), turn(id)), Written, 1, "")
	}
	r.theirs("/threads/t/edited.md", "edited")
	_, err := r.stores[0].Remove(t.Context(), "/threads/t/removed.md", versionlog.ExpectAny())
	r.must(err)
	_, err = r.stores[0].Rename(t.Context(), "/threads/t/moved.md", "/kept.md", nil)
	r.must(err)
	again := r.provider("another", &rigOptions{stores: []string{"notes"}})
	for id, receipt := range first {
		for _, p := range []*Provider{r.Provider, again} {
			got := r.result(p.Remember(t.Context(), turn(id)), Already, 0, "")
			if got.Entries[0].Version != receipt.Entries[0].Version && id != "moved" || got.Entries[0].Version == "" {
				t.Errorf("%s: %+v, want %+v", id, got, receipt)
			}
			if got.Key != receipt.Key {
				t.Errorf("%s: %+v, want %+v", id, got, receipt)
			}
		}
		b := turn(id)
		b.Entries[0].Text = "another text"
		status, reason := Refused, "conflict: "
		if id == "removed" || id == "moved" { // nothing is in its way
			status, reason = Written, ""
		}
		r.result(r.Remember(t.Context(), b), status, map[Status]int{Written: 1}[status], reason)
	}
	r.commits(4 + 3 + 2)
}

// TestRememberKey: the key of a turn is the same in every process, so that each finds its
// commit, and does not depend on the text of the turn, so that a guess of an erased text
// cannot be checked against it.
func TestRememberKey(t *testing.T) {
	r := newRig(t, nil)
	other := r.provider("another", &rigOptions{stores: []string{"notes"}})
	key := r.result(r.Remember(t.Context(), turnOne("t", "1", "text")), Written, 1, "").Key
	if got := r.result(other.Remember(t.Context(), turnOne("t", "1", "text")), Already, 0, "").Key; got != key {
		t.Errorf("the key is %s, and %s in another process", key, got)
	}
	if got := r.result(other.Remember(t.Context(), turnOne("t", "1", "another text")), Refused, 0, "conflict: ").Key; got != key {
		t.Errorf("the key is %s, and %s with another text", key, got)
	}
	if got := r.result(r.Remember(t.Context(), turnOne("t", "2", "text")), Written, 1, "").Key; got == key {
		t.Errorf("two turns have the key %s", key)
	}
	r.commits(2)
}

// TestRememberRedacted: a turn of which the versions were erased is not written again, whichever
// process it is sent to, also if another text had been there before.
func TestRememberRedacted(t *testing.T) {
	r := newRig(t, nil)
	providers := []*Provider{r.Provider, r.provider("another", &rigOptions{stores: []string{"notes"}})}
	person := &memory.Author{Actor: versionlog.Actor{Kind: versionlog.ActorUser, ID: "alice"}}
	lib := memory.NewLibrary(r.log.Log, func(string) (cas.Store, error) { return r.blobs, nil })
	st, err := lib.Open(t.Context(), r.stores[0].Info().ID, person)
	r.must(err)
	for _, texts := range [][]string{{"text"}, {"first", "second"}} {
		id := texts[0]
		var last ReceiptEntry
		var gone versionlog.Version
		for _, text := range texts {
			last = r.result(r.Remember(t.Context(), turnOne("t", id, text)), Written, 1, "").Entries[0]
			gone, err = r.stores[0].Remove(t.Context(), last.Path, versionlog.ExpectAny())
			r.must(err)
		}
		_, err = forget.Redact(t.Context(), nil, st, &forget.Request{Versions: []string{last.Version, gone.ID}, Reason: "ticket 81"})
		r.must(err)
		for _, p := range providers {
			r.result(p.Remember(t.Context(), turnOne("t", id, texts[len(texts)-1])), Refused, 0, "redacted: ")
		}
		if _, err := st.Head(t.Context(), last.Path); !errors.Is(err, versionlog.ErrNotFound) {
			t.Errorf("it is there again: %v", err)
		}
	}
	r.commits(3 + 5)
}

// TestRememberAtOnce: of many that remember a turn at once, in one process or several, one
// writes it.
func TestRememberAtOnce(t *testing.T) {
	r := newRig(t, nil)
	o := &rigOptions{stores: []string{"notes"}}
	providers := []*Provider{r.Provider, r.provider("a", o), r.provider("b", o)}
	var written atomic.Int64
	versions := sync.Map{}
	var all sync.WaitGroup
	for i := range 60 {
		all.Go(func() {
			got := providers[i%len(providers)].Remember(t.Context(), turnOne("t", fmt.Sprint(i%4), "text", "more"))
			written.Add(int64(got.Written))
			for _, e := range got.Diagnostics.Receipt.Entries {
				if e.Status != Written && e.Status != Already {
					t.Errorf("%s", show(got))
				}
				versions.Store(e.Version, true)
			}
		})
	}
	all.Wait()
	number := 0
	versions.Range(func(any, any) bool { number++; return true })
	if written.Load() != 4*2 || number != 4 {
		t.Errorf("%d entries are written, in %d versions", written.Load(), number)
	}
	r.commits(4)
}

// TestRememberOthersText: another text for the turn that comes in between is not replaced.
func TestRememberOthersText(t *testing.T) {
	r := newRig(t, nil)
	again := r.provider("another", &rigOptions{stores: []string{"notes"}})
	for _, test := range []struct {
		theirs string
		status Status
	}{{"another text", Refused}, {"text", Already}} {
		b := turnOne("t", test.theirs, "text")
		r.log.Next(logfault.BeforeCommit, func() {
			r.result(again.Remember(t.Context(), turnOne("t", test.theirs, test.theirs)), Written, 1, "")
		})
		r.result(r.Remember(t.Context(), b), test.status, 0, "")
	}
	r.log.Next(logfault.BeforeCommit, func() { // it is gone again when it is looked for
		v := r.theirs("/threads/t/gone.md", "x")
		_, err := r.stores[0].Rename(t.Context(), v.Path, "/elsewhere", nil)
		r.must(err)
	})
	r.result(r.Remember(t.Context(), turnOne("t", "gone", "text")), Written, 1, "")
	r.commits(2 + 2 + 1)
}

// TestRememberLostReply: a turn whose reply is lost is there once, and the answer says so as
// soon as it can be told.
func TestRememberLostReply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		r.log.SetFates(logfault.Unheard)
		r.result(r.Remember(t.Context(), turnOne("t", "1", "text")), Written, 1, "")
		r.log.SetFates(logfault.Unmade, logfault.Unmade)
		r.result(r.Remember(t.Context(), turnOne("t", "2", "text")), Written, 1, "")
		r.commits(2)
		for turn, fate := range map[string]logfault.Fate{"3": logfault.Unheard, "4": logfault.Unmade} {
			r.log.SetFate(func() logfault.Fate { r.log.SetDown(true); return fate })
			first := r.result(r.Remember(t.Context(), turnOne("t", turn, "text")), Unknown, 0, "unknown: store notes does not answer")
			r.log.SetFate(nil)
			r.result(r.Remember(t.Context(), turnOne("t", turn+"b", "text")), Refused, 0, "unknown: store notes does not answer; nothing was written")
			r.log.SetDown(false)
			second := r.Remember(t.Context(), turnOne("t", turn, "text")).Diagnostics.Receipt
			if e := second.Entries[0]; second.Key != first.Key || e.Version == "" || (e.Status == Already) != (fate == logfault.Unheard) {
				t.Errorf("%s: %+v", fate, second)
			}
		}
		r.commits(4)
	})
}

// TestRememberRefused: what cannot be written is refused with the reason, and nothing else is
// done.
func TestRememberRefused(t *testing.T) {
	r := newRig(t, &rigOptions{create: memory.StoreOptions{MaxMemoryBytes: 1000}})
	two := turnOne("t", "1", "a", "b")
	two.Entries[1].ID = "1"
	latin := turnOne("t", "1", "a\xff")
	sender := turnOne("t", "1", "a")
	sender.Sender = "\xff"
	meta := turnOne("t", "1", "a")
	meta.Meta = map[string]any{"f": func() {}}
	long := turnOne("t", "1", "a")
	long.Entries[0].Meta = map[string]any{"k": strings.Repeat("x", 512)}
	pairs := turnOne("t", "1", "a")
	pairs.Meta = map[string]any{}
	for i := range 17 {
		pairs.Meta[fmt.Sprint(i)] = i
	}
	for want, b := range map[string]Batch{
		"invalid: field thread_id: it is missing":                                 turnOne("", "1", "a"),
		"invalid: field turn_id: it is missing, and so is run_id":                 turnOne("t", "", "a"),
		"invalid: field entries: there are none":                                  turnOne("t", "1"),
		"invalid: field entries: there are 1001, at most 1000":                    turnOne("t", "1", make([]string, 1001)...),
		"invalid: entry 2: field id: another entry has it":                        two,
		"invalid: entry 1: it is not Unicode":                                     latin,
		"invalid: field sender: it is not Unicode":                                sender,
		"invalid: field meta: it has a value that JSON cannot say":                meta,
		"invalid: field meta: it has 17 pairs, at most 16":                        pairs,
		"invalid: field meta: a key or value has more than 512 characters":        long,
		"too_large: the turn has 1095 bytes, and a memory of store notes at most": turnOne("t", "1", strings.Repeat("x", 1000)),
	} {
		if got := r.result(r.Remember(t.Context(), b), Refused, 0, want); strings.Contains(show(got), "xxxx") {
			t.Errorf("%s: %s", want, show(got))
		}
	}
	r.commits(0)
	r.theirs("/threads", "in the way")
	r.result(r.Remember(t.Context(), turnOne("t", "1", "a")), Refused, 0, "overlap: store notes has a file where a directory would be; nothing was written")
	ro := newRig(t, &rigOptions{stores: []string{"notes:ro"}})
	ro.result(ro.Remember(t.Context(), turnOne("t", "1", "a")), Refused, 0, reasonNoStore)
	if got := ro.find("").Provider.Capabilities; len(got) != 1 {
		t.Errorf("it can %v", got)
	}
	several := newRig(t, &rigOptions{stores: []string{"notes:ro", "zoo", "books"}})
	if got := several.result(several.Remember(t.Context(), turnOne("t", "1", "a")), Written, 1, ""); got.Entries[0].Store != "zoo" {
		t.Errorf("%+v", got)
	}
}

// TestCanary: what is asked and what is remembered is in answers and memories, and in no log.
func TestCanary(t *testing.T) {
	const canary = "kanarienvogel"
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		b := turnOne("t", "1", canary)
		b.Sender, b.QueryText, b.Entries[0].Meta = canary, canary, map[string]any{"k": canary}
		r.result(r.Remember(t.Context(), b), Written, 1, "")
		if got := r.find(canary); len(got.Items) != 1 || !strings.Contains(got.Items[0].Text, canary) {
			t.Errorf("it is blind: %s", show(got))
		}
		b.Entries[0].Text += "2"
		r.result(r.Remember(t.Context(), b), Refused, 0, "conflict")
		r.log.Next(logfault.BeforeCommit, func() { panic(canary) })
		r.result(r.Remember(t.Context(), turnOne("t", "2", canary)), Unknown, 0, reasonPanic)
		r.log.SetDown(true)
		r.result(r.Remember(t.Context(), turnOne("t", "3", canary)), Refused, 0, "unknown")
		r.log.SetDown(false)
		r.result(r.Remember(t.Context(), turnOne("t", "4", strings.Repeat(canary, 10_000))), Refused, 0, "too_large")
		for _, line := range []string{
			canary, `{"id":1,"method":"` + canary + `"}`, `{"id":1,"method":"recall","params":{"query_text":["` + canary + `"]}}`,
			`{"id":1,"method":"recall","params":{"query_text":"` + canary + `","query_text":"x"}}`, `{"id":1,"method":"remember","params":{"entries":[{"text":"` + canary + `","x":1}]}}`,
		} {
			if got := show(r.Answer(t.Context(), []byte(line))); strings.Contains(got, canary) || !strings.Contains(got, `"degraded":true`) {
				t.Errorf("%s: %s", line, got)
			}
		}
		r.blobs.set(0, func(context.Context) { panic(canary) })
		if got := r.find(canary); !got.Diagnostics.Degraded {
			t.Errorf("%s", show(got))
		}
		time.Sleep(time.Second)
		if log := r.logged.String(); strings.Contains(log, canary) || !strings.Contains(log, `"msg":"panic"`) || !strings.Contains(log, `"method":"recall"`) {
			t.Errorf("the log has %q", log)
		}
		for c, err := range r.stores[0].Commits(t.Context(), 0) {
			r.must(err)
			if record := fmt.Sprint(c.Message, c.Meta); bytes.Contains([]byte(record), []byte(canary)) {
				t.Errorf("a commit says %s", record)
			}
		}
	})
}
