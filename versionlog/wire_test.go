package versionlog

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestExpectationJSON holds the form that protocols have.
func TestExpectationJSON(t *testing.T) {
	digest := Digest{0xab}
	for text, e := range map[string]Expectation{
		`{"any":true}`:                         ExpectAny(),
		`{"absent":true}`:                      ExpectAbsent(),
		`{"exists":true}`:                      ExpectExists(),
		`{"version":"memver_1"}`:               ExpectVersion("memver_1"),
		`{"version":""}`:                       ExpectVersion(""),
		`{"sha256":""}`:                        ExpectDigest(Digest{}),
		`{"sha256":"` + digest.String() + `"}`: ExpectDigest(digest),
	} {
		if got, err := json.Marshal(e); err != nil || string(got) != text {
			t.Errorf("%v is %s, %v, want %s", e, got, err, text)
		}
		var back Expectation
		if err := json.Unmarshal([]byte(text), &back); err != nil || back != e {
			t.Errorf("%s is %v, %v, want %v", text, back, err, e)
		}
	}
	for _, text := range []string{
		`{}`, `null`, `1`, `{"any":false}`, `{"any":true,"absent":true}`, `{"version":"memver_1","exists":true}`,
		`{"sha256":"ab"}`, `{"sha":"x"}`, `{"any":"yes"}`,
	} {
		e := ExpectAny()
		if err := json.Unmarshal([]byte(text), &e); err == nil {
			t.Errorf("%s is %v, want an error", text, e)
		}
	}
	if got, err := json.Marshal(Expectation{}); err == nil {
		t.Errorf("an expectation of no kind is %s", got)
	}
}

func TestConflictErrorJSON(t *testing.T) {
	head := &Version{
		ID: "memver_2", MemoryID: "mem_1", Parent: "memver_1", Seq: 2, Op: OpRenamed, Path: "/b", From: "/a", Digest: Digest{1}, Size: 3,
		Actor: Actor{Kind: ActorUser, ID: "u"}, Session: "s", Time: time.Date(2026, 3, 1, 0, 0, 0, 1000, time.UTC), Message: "m",
	}
	want := &ConflictError{StoreID: "memstore_1", Conflicts: []Conflict{
		{Path: "/b", Expected: ExpectVersion("memver_1"), Head: head}, {Path: "/c", Expected: ExpectExists()},
	}}
	data, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	const text = `{"store_id":"memstore_1","conflicts":[{"path":"/b","expected":{"version":"memver_1"},"head":{"id":"memver_2","memory_id":"mem_1",` +
		`"parent":"memver_1","seq":2,"op":"renamed","path":"/b","from":"/a","sha256":"0100000000000000000000000000000000000000000000000000000000000000",` +
		`"size":3,"actor":{"kind":"user","id":"u"},"session":"s","time":"2026-03-01T00:00:00.000001Z","message":"m"}},` +
		`{"path":"/c","expected":{"exists":true},"head":null}]}`
	if string(data) != text {
		t.Errorf("it is %s, want %s", data, text)
	}
	var got *ConflictError
	if err := json.Unmarshal(data, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(Expectation{})); diff != "" {
		t.Errorf("want -, got +:\n%s", diff)
	}
}
