package versionlog

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"mneme/cas"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the golden file anew")

// goldenRecords are the records of goldenCommits.
var goldenRecords = map[string]string{
	"testdata/record-v1.json":       "ff5c45fc1458dbbca65394896d103d5146399447e9c3d1929ab876d97e874c9c",
	"testdata/record-v2.json":       "5339fb9dc394d505a80ca9b8678e9a3fcada04dcc1e46b45094ac712fe296a00",
	"testdata/record-v2-event.json": "7e0a95d22b344677c5b0d87993bfd47a2e68404e169ad8fde9c821d69f84edb0",
}

func goldenCommits() map[string]*Commit {
	v2 := goldenCommit(2)
	v2.Epoch, v2.Meta = 3, map[string]string{"model": "claude <&>", "": "\u2028", "agent": ""}
	delete(v2.Meta, "")
	v2.Versions = append(v2.Versions, Version{ID: "memver_000000002m0100000000000005", MemoryID: "mem_dir", Op: OpCreated, Path: "/caf\u00e9/", Spelling: "/cafe\u0301/"})
	v2.Seals = append(v2.Seals, Seal{})
	seal(v2)
	event := goldenCommit(2)
	event.Versions, event.Seals = []Version{}, []Seal{}
	name, value, bytes := "Notes", "1 <&>", int64(1<<40)
	event.Event = StoreUpdated(StoreUpdate{Name: &name, QuotaBytes: &bytes, Metadata: map[string]*string{"a": &value, "b": nil}})
	seal(event)
	return map[string]*Commit{
		"testdata/record-v1.json": goldenCommit(1), "testdata/record-v2.json": v2, "testdata/record-v2-event.json": event,
	}
}

// seal fills in what follows from the rest of a commit.
func seal(c *Commit) {
	for i := range c.Versions {
		v := &c.Versions[i]
		v.Seq, v.Time, v.Actor, v.Session, v.Message = c.Seq, c.Time, c.Actor, c.Session, c.Message
		c.Seals[i].Salt = Salt([]byte(strings.Repeat(string(rune('a'+i)), len(Salt{}))))
		c.Seals[i].Payload = payloadDigest(c.Format, c.Seals[i].Salt, v)
	}
	c.Digest = chainDigest(c)
}

// goldenCommit has every field that a format has had from the first on, and every
// operation, with fixed ids and times.
func goldenCommit(format int) *Commit {
	c := &Commit{
		Format: format, StoreID: "memstore_01kjk0vk00e7yxkz7pw4m6zq2r", Seq: 42, Epoch: 1,
		Time:  time.Date(2026, 3, 1, 12, 0, 0, 123_456_000, time.UTC),
		Actor: Actor{Kind: ActorSession, ID: "agent-7"}, Session: "session-1",
		Message: "tidy <up> & \"quote\"\nünï\u2028", Key: "01kjk0vk00aaaaaaaaaaaaaaaa",
		Prev: cas.Sum([]byte("the commit before")),
		Versions: []Version{
			{ID: "memver_000000002m0000000000000001", MemoryID: "mem_created", Op: OpCreated, Path: "/a/new.md", Digest: cas.Sum([]byte("new")), Size: 3},
			{ID: "memver_000000002m0080000000000002", MemoryID: "mem_modified", Parent: "memver_p1", Op: OpModified, Path: "/b.md", Digest: cas.Sum(nil)},
			{ID: "memver_000000002m00g0000000000003", MemoryID: "mem_renamed", Parent: "memver_p2", Op: OpRenamed, Path: "/to é", From: "/from", Digest: cas.Sum([]byte("x")), Size: 1},
			{ID: "memver_000000002m00r0000000000004", MemoryID: "mem_deleted", Parent: "memver_p3", Op: OpDeleted, Path: "/gone"},
		},
		Seals: make([]Seal, 4),
	}
	seal(c)
	return c
}

func golden(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return bytes.TrimSuffix(data, []byte("\n"))
}

// TestRecordGolden: the bytes and the digests of a format never change.
func TestRecordGolden(t *testing.T) {
	for name, want := range goldenCommits() {
		record, err := EncodeRecord(want)
		if err != nil {
			t.Fatal(err)
		}
		if *update {
			if err := os.WriteFile(name, append(record, '\n'), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if diff := cmp.Diff(string(golden(t, name)), string(record)); diff != "" {
			t.Errorf("%s: want -, got +:\n%s", name, diff)
		}
		c, err := DecodeRecord(golden(t, name))
		if err != nil {
			t.Fatal(name, err)
		}
		if diff := cmp.Diff(want, c); diff != "" {
			t.Errorf("%s: want -, got +:\n%s", name, diff)
		}
		if c.Digest.String() != goldenRecords[name] {
			t.Errorf("%s: chain digest %v, want %s", name, c.Digest, goldenRecords[name])
		}
	}
	const payload = "f10d4b26b0a250ac98d694f5e98c7578bbdc139407f3b5d70891ae0fde5c17a0"
	if got := goldenCommit(1).Seals[0].Payload.String(); got != payload {
		t.Errorf("payload digest %v, want %s", got, payload)
	}
}

// TestRecordDamage changes every byte of a record in several ways. A changed record that
// still decodes must be the same commit: the spelling of JSON has some freedom.
func TestRecordDamage(t *testing.T) {
	for name, want := range goldenCommits() {
		record := golden(t, name)
		for i := range record {
			for _, b := range []byte{' ', '"', '0', record[i] ^ 1, record[i] ^ 0x20} {
				damaged := bytes.Clone(record)
				damaged[i] = b
				c, err := DecodeRecord(damaged)
				if err == nil && !reflect.DeepEqual(c, want) {
					t.Fatalf("%s: byte %d changed from %q to %q went undetected", name, i, record[i], b)
				}
				if err != nil && !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrFormat) {
					t.Fatalf("%s: byte %d: %v", name, i, err)
				}
			}
		}
	}
}

// TestRecordErased: a record from which a version was erased still verifies, says
// nothing of it, and is not taken for one of which only a part was erased.
func TestRecordErased(t *testing.T) {
	whole := goldenCommits()["testdata/record-v2.json"]
	for i := range whole.Versions {
		record, err := EncodeRecord(whole.Erase(whole.Versions[i].ID))
		if err != nil {
			t.Fatal(err)
		}
		c, err := DecodeRecord(record)
		if err != nil {
			t.Fatal(err)
		}
		want := Version{
			ID: whole.Versions[i].ID, MemoryID: whole.Versions[i].MemoryID, Parent: whole.Versions[i].Parent, Op: whole.Versions[i].Op,
			Seq: whole.Seq, Time: whole.Time, Actor: whole.Actor, Session: whole.Session, Message: whole.Message,
		}
		if c.Digest != whole.Digest || !c.Versions[i].Redacted() || c.Versions[i] != want || c.Seals[i].Salt != (Salt{}) {
			t.Errorf("version %d reads as %+v of a commit with digest %v", i, c.Versions[i], c.Digest)
		}
		for _, left := range []func(*Version){
			func(v *Version) { v.Size = 1 }, func(v *Version) { v.Digest[0] = 1 }, func(v *Version) { v.From = "/x" }, func(v *Version) { v.Spelling = "/x" },
		} {
			part := whole.Erase(whole.Versions[i].ID)
			left(&part.Versions[i])
			if part.Verify() == nil {
				t.Errorf("version %d: a part of an erased version verifies", i)
			}
		}
	}
}

// TestRecordOfFormat1: nothing that format 2 added is taken from a record of format 1,
// whose digest does not bind it.
func TestRecordOfFormat1(t *testing.T) {
	const name = "testdata/record-v1.json"
	for _, added := range []string{`"epoch":1,`, `"meta":{"a":"b"},`, `"event":{"kind":"archived"},`} {
		record := bytes.Replace(golden(t, name), []byte(`"seq"`), []byte(added+`"seq"`), 1)
		if _, err := DecodeRecord(record); !errors.Is(err, ErrCorrupt) {
			t.Errorf("with %s: %v, want ErrCorrupt", added, err)
		}
	}
	record := bytes.Replace(golden(t, name), []byte(`"path"`), []byte(`"spelling":"/x","path"`), 1)
	if _, err := DecodeRecord(record); !errors.Is(err, ErrCorrupt) {
		t.Errorf("with a spelling: %v, want ErrCorrupt", err)
	}
}

func TestRecordOfOtherFormat(t *testing.T) {
	const name = "testdata/record-v2.json"
	newer := bytes.Replace(golden(t, name), []byte(`"format":2`), []byte(`"format":3,"unknown":{"x":[]}`), 1)
	if _, err := DecodeRecord(newer); !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), "use a newer mneme") {
		t.Errorf("error is %v, want ErrFormat", err)
	}
	// It is refused as newer even when its fields have become something else.
	if _, err := DecodeRecord([]byte(`{"format":3,"seq":"not a number"}`)); !errors.Is(err, ErrFormat) {
		t.Errorf("error is %v, want ErrFormat", err)
	}
	for _, format := range []string{`"format":0`, `"format":-1`, `"format":null`, `"fermat":1`} {
		older := bytes.Replace(golden(t, name), []byte(`"format":2`), []byte(format), 1)
		if _, err := DecodeRecord(older); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: error is %v, want ErrCorrupt", format, err)
		}
	}
}

// TestRecordOfUnknownEvent: a record that is whole, with an event of a later mneme, is not
// taken for damage; a damaged one is not taken for newer.
func TestRecordOfUnknownEvent(t *testing.T) {
	c := goldenCommits()["testdata/record-v2-event.json"]
	c.Event = &Event{Kind: "forked"}
	seal(c)
	record, err := EncodeRecord(c)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := DecodeRecord(record); !errors.Is(err, ErrFormat) || errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), "use a newer mneme") {
		t.Errorf("of an unknown event: %v, want ErrFormat", err)
	}
	damaged := bytes.Replace(golden(t, "testdata/record-v2-event.json"), []byte(`"updated"`), []byte(`"forked"`), 1)
	if _, err := DecodeRecord(damaged); !errors.Is(err, ErrCorrupt) || errors.Is(err, ErrFormat) {
		t.Errorf("damaged: %v, want ErrCorrupt", err)
	}
}

func FuzzDecodeRecord(f *testing.F) {
	for name := range goldenRecords {
		f.Add(golden(f, name))
	}
	erased, err := EncodeRecord(goldenCommit(2).Erase("memver_000000002m0000000000000001"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(erased)
	f.Add([]byte(`{"format":2,"event":{"kind":"updated","fields":{"quota_bytes":"x"}}}`))
	f.Add([]byte(`{"format":1}`))
	f.Add([]byte(`{"format":1,"versions":[{}]}`))
	f.Add([]byte(`null`))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := DecodeRecord(data)
		if err != nil {
			return
		}
		again, err := EncodeRecord(c)
		if err != nil {
			t.Fatal(err)
		}
		back, err := DecodeRecord(again)
		if err != nil {
			t.Fatalf("%v after another round: %s", err, again)
		}
		if diff := cmp.Diff(c, back); diff != "" {
			t.Fatal(diff)
		}
	})
}
