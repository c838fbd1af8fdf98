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

const goldenRecord = "testdata/record-v1.json"

// goldenCommit has every field and every operation, with fixed ids and times.
func goldenCommit() *Commit {
	c := &Commit{
		StoreID: "memstore_01kjk0vk00e7yxkz7pw4m6zq2r", Seq: 42,
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
	for i := range c.Versions {
		v := &c.Versions[i]
		v.Seq, v.Time, v.Actor, v.Session, v.Message = c.Seq, c.Time, c.Actor, c.Session, c.Message
		c.Seals[i].Salt = Salt([]byte(strings.Repeat(string(rune('a'+i)), len(Salt{}))))
		c.Seals[i].Payload = payloadDigest(c.Seals[i].Salt, v)
	}
	c.Digest = chainDigest(c)
	return c
}

func golden(t testing.TB) []byte {
	t.Helper()
	data, err := os.ReadFile(goldenRecord)
	if err != nil {
		t.Fatal(err)
	}
	return bytes.TrimSuffix(data, []byte("\n"))
}

// TestRecordGolden: the bytes and the digests of format 1 never change.
func TestRecordGolden(t *testing.T) {
	record, err := EncodeRecord(goldenCommit())
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(goldenRecord, append(record, '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(string(golden(t)), string(record)); diff != "" {
		t.Errorf("want -, got +:\n%s", diff)
	}
	c, err := DecodeRecord(golden(t))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(goldenCommit(), c); diff != "" {
		t.Errorf("want -, got +:\n%s", diff)
	}
	const digest = "ff5c45fc1458dbbca65394896d103d5146399447e9c3d1929ab876d97e874c9c"
	if c.Digest.String() != digest {
		t.Errorf("chain digest %v, want %s", c.Digest, digest)
	}
	const payload = "f10d4b26b0a250ac98d694f5e98c7578bbdc139407f3b5d70891ae0fde5c17a0"
	if c.Seals[0].Payload.String() != payload {
		t.Errorf("payload digest %v, want %s", c.Seals[0].Payload, payload)
	}
}

// TestRecordDamage changes every byte of a record in several ways. What still
// decodes must be the same commit: the spelling of JSON has some freedom.
func TestRecordDamage(t *testing.T) {
	record, want := golden(t), goldenCommit()
	for i := range record {
		for _, b := range []byte{' ', '"', '0', record[i] ^ 1, record[i] ^ 0x20} {
			damaged := bytes.Clone(record)
			damaged[i] = b
			c, err := DecodeRecord(damaged)
			if err == nil && !reflect.DeepEqual(c, want) {
				t.Fatalf("byte %d changed from %q to %q went undetected", i, record[i], b)
			}
			if err != nil && !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrFormat) {
				t.Fatalf("byte %d: %v", i, err)
			}
		}
	}
}

func TestRecordOfOtherFormat(t *testing.T) {
	newer := bytes.Replace(golden(t), []byte(`"format":1`), []byte(`"format":2,"unknown":{"x":[]}`), 1)
	if _, err := DecodeRecord(newer); !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), "use a newer mneme") {
		t.Errorf("error is %v, want ErrFormat", err)
	}
	// It is refused as newer even when its fields have become something else.
	if _, err := DecodeRecord([]byte(`{"format":2,"seq":"not a number"}`)); !errors.Is(err, ErrFormat) {
		t.Errorf("error is %v, want ErrFormat", err)
	}
	for _, format := range []string{`"format":0`, `"format":-1`, `"format":null`, `"fermat":1`} {
		older := bytes.Replace(golden(t), []byte(`"format":1`), []byte(format), 1)
		if _, err := DecodeRecord(older); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: error is %v, want ErrCorrupt", format, err)
		}
	}
}

func FuzzDecodeRecord(f *testing.F) {
	f.Add(golden(f))
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
