package wire

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"mneme/cas"
	"mneme/errkind"
	"mneme/versionlog"

	"github.com/google/go-cmp/cmp"
)

// versions are of all kinds.
func versions() []versionlog.Version {
	at := time.Date(2026, 3, 1, 12, 0, 0, 123_456_000, time.UTC)
	actor := versionlog.Actor{Kind: versionlog.ActorSession, ID: "sesn_1"}
	id := func(n byte) string { return versionlog.FormatVersionID([16]byte{5: n, 15: n}) }
	memory := versionlog.FormatMemoryID([16]byte{1, 2, 3})
	return []versionlog.Version{
		{ID: id(1), MemoryID: memory, Seq: 1, Op: versionlog.OpCreated, Path: "/a/b.md", Digest: cas.Sum([]byte("1")), Size: 1, Actor: actor, Session: "sesn_1", Time: at, Message: "why"},
		{ID: id(2), MemoryID: memory, Parent: id(1), Seq: 2, Op: versionlog.OpRenamed, Path: "/a/c.md", From: "/a/b.md", Spelling: "/a/C.md", Digest: cas.Sum([]byte("1")), Size: 1, Actor: actor, Time: at.Add(time.Hour)},
		{ID: id(3), MemoryID: memory, Parent: id(2), Seq: 3, Op: versionlog.OpDeleted, Path: "/a/c.md", Actor: actor, Time: at.Add(2 * time.Hour)},
		{ID: id(4), MemoryID: "of another form", Parent: "x", Seq: 1 << 47, Op: versionlog.OpModified, Path: "", Actor: actor, Session: "sesn_1"},
	}
}

// encoded is a stream of versions and of two items of bytes.
func encoded(t testing.TB, all []versionlog.Version, end *Error) []byte {
	var b bytes.Buffer
	w := NewItemWriter(NewStreamWriter(&b, func() error { return nil }))
	for i := range all {
		if err := w.Version(&all[i]); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Alive(), w.End(end)); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func decoded(data []byte) (all []versionlog.Version, err error) {
	stream := NewStreamReader(bytes.NewReader(data))
	stream.Alive = func() error { return nil }
	r := NewItemReader(stream)
	for {
		v, err := r.Version()
		if err != nil {
			return all, err
		}
		all = append(all, v)
	}
}

// TestVersions: what is written is read; and the form stays that of the fixture.
func TestVersions(t *testing.T) {
	want := versions()
	data := encoded(t, want, nil)
	got, err := decoded(data)
	if err != io.EOF {
		t.Error(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("want -, got +:\n%s", diff)
	}
	const name = "testdata/versions.hex"
	fixture, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if text := hex.EncodeToString(data); text != strings.Join(strings.Fields(string(fixture)), "") {
		t.Errorf("the form is not that of %s:\n%s", name, text)
	}
}

// TestCut: wherever a stream breaks off, the reader does not take that for its end, and
// returns the items before it unchanged.
func TestCut(t *testing.T) {
	var want []versionlog.Version
	for i := range 300 { // several kinds of frames
		v := versions()[i%4]
		v.Path = fmt.Sprintf("/dir-%d/%s", i/50, v.ID)
		want = append(want, v)
	}
	data := encoded(t, want, nil)
	for n := range len(data) {
		got, err := decoded(data[:n])
		var cut *CutError
		if !errors.As(err, &cut) || len(got) > len(want) || len(got) > 0 && got[len(got)-1] != want[len(got)-1] {
			t.Fatalf("%d of %d bytes: %d versions, %v", n, len(data), len(got), err)
		}
	}
	if _, err := decoded(append(data, 'd')); errors.Is(err, io.EOF) {
		t.Error("something behind the end is passed over")
	}
}

// TestWipe: what overwrites the buffers of an answer means as much as that the stream goes on, up to a bound.
func TestWipe(t *testing.T) {
	var b bytes.Buffer
	w := NewStreamWriter(&b, func() error { return nil })
	if err := errors.Join(w.Wipe(), w.End(nil)); err != nil || b.Len() < 6<<10 { // what net/http buffers
		t.Fatalf("%d bytes, %v", b.Len(), err)
	}
	if got, err := decoded(b.Bytes()); len(got) > 0 || err != io.EOF {
		t.Errorf("%v, %v", got, err)
	}
	long := append([]byte{'k', 0, 0, 0x40, 0}, make([]byte, 0x4000)...)
	if _, err := decoded(long); !errors.As(err, new(*CutError)) {
		t.Errorf("a longer one: %v", err)
	}
}

// TestErrors: an error is on the other side what it was on this one.
func TestErrors(t *testing.T) {
	head := versions()[0]
	conflict := &versionlog.ConflictError{StoreID: "s", Conflicts: []versionlog.Conflict{{Path: "/a", Expected: versionlog.ExpectVersion(""), Head: &head}}}
	over := &versionlog.OverlapError{Path: "/a/b", With: head}
	quota := &versionlog.QuotaError{Whose: versionlog.WhoseStore, What: "memories", Used: 1, More: 2, Limit: 3}
	guard := &versionlog.GuardError{Path: "/a", Before: 3, Then: 1, Limit: 50}
	needs := &cas.NeedsError{Blob: cas.Sum(nil), Err: cas.ErrNotFound}
	all := []error{conflict, over, quota, guard, needs}
	for _, s := range sentinels {
		all = append(all, s.err)
	}
	for _, k := range errkind.All() {
		all = append(all, errkind.New(k, "of "+k.String()))
	}
	for _, err := range all {
		e, status, _ := ErrorOf(fmt.Errorf("store x: %w", err))
		got := DecodeError(e.Encode())
		if errkind.Of(got) != errkind.Of(err) || status < 400 {
			t.Errorf("%v is of the kind %v and the status %d", got, errkind.Of(got), status)
		}
		for _, s := range sentinels {
			if errors.Is(got, s.err) != errors.Is(err, s.err) {
				t.Errorf("%v is %v: %v", got, s.err, errors.Is(got, s.err))
			}
		}
	}
	sent := func(err error) error {
		e, _, _ := ErrorOf(err)
		return DecodeError(e.Encode())
	}
	var c *versionlog.ConflictError
	var o *versionlog.OverlapError
	var q *versionlog.QuotaError
	var g *versionlog.GuardError
	var n *cas.NeedsError
	for got, is := range map[error]bool{
		sent(conflict): errors.As(sent(conflict), &c) && cmp.Equal(c, conflict, cmp.AllowUnexported(versionlog.Expectation{})),
		sent(over):     errors.As(sent(over), &o) && *o == *over,
		sent(quota):    errors.As(sent(quota), &q) && *q == *quota,
		sent(guard):    errors.As(sent(guard), &g) && *g == *guard,
		sent(needs):    errors.As(sent(needs), &n) && n.Blob == needs.Blob,
	} {
		if !is {
			t.Errorf("%v has other data", got)
		}
	}
	if text := sent(errkind.New(errkind.Invalid, "\x1b[31m"+strings.Repeat("x", 1<<20))).Error(); len(text) > 3*maxErrorText || strings.ContainsRune(text, 0x1b) {
		t.Errorf("a hostile text has %d bytes: %.40q", len(text), text)
	}
}

// TestText: a text that is no UTF-8 stays what it is.
func TestText(t *testing.T) {
	for _, want := range []Text{"", "/a", "{", "/\xff\u2028\x00"} {
		data, err := json.Marshal(want)
		var got Text
		if err == nil {
			err = json.Unmarshal(data, &got)
		}
		if err != nil || got != want {
			t.Errorf("%q became %q by %s: %v", want, got, data, err)
		}
	}
}

// proposals are of all kinds.
func proposals() []*versionlog.Proposal {
	content := []byte("line\n\xff")
	p := &versionlog.Proposal{
		Key: "k", Fresh: true, Actor: versionlog.Actor{Kind: versionlog.ActorUser, ID: "u"}, Session: "s", Message: "m", Meta: map[string]string{"a": "b"},
		Epoch: 3, Quota: versionlog.Quota{Bytes: 1}, Used: versionlog.Usage{Memories: -1}, Deleted: 2, Confirmed: true,
		Changes: []versionlog.Change{
			{Action: versionlog.Put, Path: "/a", Digest: cas.Sum(content), Size: int64(len(content)), Content: content, Expect: versionlog.ExpectAbsent()},
			{Action: versionlog.Put, Path: "/empty", Digest: cas.Sum(nil), Content: []byte{}, Expect: versionlog.ExpectAny(), MemoryID: "mem_1"},
			{Action: versionlog.Put, Path: "/stored", Digest: cas.Sum(content), Size: 6, Expect: versionlog.ExpectVersion("v")},
			{Action: versionlog.Rename, Path: "/b", To: "/c", Spelling: "/C", Expect: versionlog.ExpectExists()},
			{Action: versionlog.Remove, Path: "/d", Expect: versionlog.ExpectDigest(cas.Sum(nil))},
			{Action: versionlog.MakeDir, Path: "/e/", Expect: versionlog.ExpectAny()},
		},
	}
	return []*versionlog.Proposal{p, {Key: "k", Event: versionlog.StoreArchived()}}
}

func TestProposals(t *testing.T) {
	for _, want := range proposals() {
		body, err := EncodeProposal(want)
		if err != nil {
			t.Fatal(err)
		}
		got, err := DecodeProposal(body)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(versionlog.Expectation{})); diff != "" {
			t.Errorf("want -, got +:\n%s", diff)
		}
		for n := range len(body) {
			if _, err := DecodeProposal(body[:n]); !errors.Is(err, versionlog.ErrInvalid) {
				t.Fatalf("%d of %d bytes: %v", n, len(body), err)
			}
		}
	}
}

// TestBoundedProposals: what a proposal takes when it is decoded is in proportion to its length.
func TestBoundedProposals(t *testing.T) {
	times := func(begin, one, end string) []byte {
		text := begin + strings.TrimSuffix(strings.Repeat(one+",", (1<<20)/(len(one)+1)), ",") + end
		return append(binary.BigEndian.AppendUint32(nil, uint32(len(text))), text...)
	}
	change := `{"action":"put"}`
	if _, err := DecodeProposal(times(`{"changes":[`+strings.Repeat(change+",", versionlog.MaxChanges), change, `]}`)); !errors.Is(err, versionlog.ErrTooLarge) {
		t.Errorf("too many changes: %v", err)
	}
	for what, body := range map[string][]byte{
		"empty changes": times(`{"changes":[`, `{}`, `]}`),
		"changes":       times(`{"changes":[`, change, `]}`),
		"metadata":      times(`{"meta":{`, `"":""`, `}}`),
		"fields":        times(`{"event":{"fields":{`, `"":""`, `}}}`),
		"versions":      times(`{"finished":{"format":1,"versions":[`, `{}`, `]}}`),
		"meta of one":   times(`{"finished":{"format":1,"meta":{`, `"":""`, `}}}`),
		"fields of one": times(`{"finished":{"format":1,"event":{"fields":{`, `"":""`, `}}}}`),
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, _ = DecodeProposal(body)
		runtime.ReadMemStats(&after)
		if took := after.TotalAlloc - before.TotalAlloc; took > 100*uint64(len(body)) {
			t.Errorf("%s of %d bytes took %d", what, len(body), took)
		}
	}
}

// TestGarbageProposals: what a client sends is the client's fault, and no damage of the server's data.
func TestGarbageProposals(t *testing.T) {
	for _, text := range []string{
		`{"finished":"x"}`, `{"finished":1}`, `{"finished":{}}`, `{"finished":[]}`, `{"finished":{"format":0}}`, `{"finished":{"format":1}}`, `{"finished":{"format":1,"time":"x"}}`,
		`{"finished":{"format":1,"time":"2026-01-01T00:00:00.000000Z","versions":[{}]}}`, `{"changes":[{"action":"put","sha256":"x"}]}`, `{"changes":[{"action":"put","expect":{"kind":"x"}}]}`, `{"event":{"kind":1}}`,
	} {
		_, err := DecodeProposal(append(binary.BigEndian.AppendUint32(nil, uint32(len(text))), text...))
		if _, status, hidden := ErrorOf(err); errkind.Of(err) != errkind.Invalid || status != 400 || hidden {
			t.Errorf("%s: %v, of kind %v", text, err, errkind.Of(err))
		}
	}
}

// FuzzRequest: no request makes the server do more than refuse it.
func FuzzRequest(f *testing.F) {
	for _, p := range proposals() {
		body, err := EncodeProposal(p)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(body)
	}
	f.Add([]byte(`{"store":"s","path":{"bytes":"/w=="},"at":1,"filter":{"op":"created"},"blobs":[""]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if a, err := ReadAsk(data); err == nil {
			text, err := json.Marshal(a)
			again, readErr := ReadAsk(text)
			if err := errors.Join(err, readErr); err != nil || !cmp.Equal(a, again) {
				t.Errorf("%s became %+v: %v", text, again, err)
			}
		}
		if p, err := DecodeProposal(data); err == nil && p.Validate() == nil {
			body, err := EncodeProposal(p)
			if err != nil {
				t.Fatal(err)
			}
			if again, err := DecodeProposal(body); err != nil || !cmp.Equal(p.Changes, again.Changes, cmp.AllowUnexported(versionlog.Expectation{})) {
				t.Errorf("%+v became %+v, %v", p, again, err)
			}
		}
	})
}

// FuzzAnswer: no answer makes the client do more than refuse it.
func FuzzAnswer(f *testing.F) {
	f.Add(encoded(f, versions(), nil))
	f.Add(encoded(f, nil, &Error{Kind: "conflict", Is: []string{"conflict"}}))
	f.Fuzz(func(t *testing.T, data []byte) {
		if all, err := decoded(data); err == nil || len(all) > len(data)*1000 {
			t.Errorf("%d versions of %d bytes, %v", len(all), len(data), err)
		}
		r := NewItemReader(NewStreamReader(bytes.NewReader(data)))
		for {
			if _, err := r.Record(); err != nil {
				break
			}
		}
		_ = DecodeError(data).Error()
		_, _ = ReadAnswer(data)
		_, _ = DecodeCommit(data)
	})
}

// TestStores: a store has the form that both sides of the protocol have always known.
func TestStores(t *testing.T) {
	made := time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC)
	want := versionlog.Store{
		ID: "memstore_1", Slug: "s", Name: "S", Metadata: map[string]string{"a": "b"},
		Limits: versionlog.Limits{MaxMemoryBytes: 9, Content: versionlog.ContentText},
		Quota:  versionlog.Quota{Bytes: 1, Memories: 2, PerHour: 3}, CreatedAt: made, Epoch: 1, Replica: true,
	}
	const form = `{"id":"memstore_1","slug":"s","name":"S","metadata":{"a":"b"},"max_memory_bytes":9,"content":"text",` +
		`"created_at":"2026-01-02T03:04:05.000006Z","epoch":1,"replica":true,"quota":{"bytes":1,"memories":2,"per_hour":3}}`
	text, err := json.Marshal(StoreOf(want))
	if err != nil || string(text) != form {
		t.Errorf("%s, %v; want %s", text, err, form)
	}
	var got Store
	if err := json.Unmarshal([]byte(form), &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got.Store()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
