package dynamolog

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"log/slog"
	"net/http"
	"testing"

	"mneme/internal/testing/awstest"
	"mneme/internal/testing/fault"
	"mneme/versionlog"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/s3"
)

// appendOnly denies what the credentials of a mount may not do: to delete an
// object, or to put one without If-None-Match.
func appendOnly(req *http.Request, _ []byte, send func() (*http.Response, error)) (*http.Response, error) {
	if req.Method == http.MethodDelete || req.Method == http.MethodPut && req.Header.Get("If-None-Match") != "*" {
		return fault.Answer(http.StatusForbidden, "AccessDenied")(req, nil, send)
	}
	return send()
}

// TestAppendOnlyCredentials holds that a process which may add objects and no
// more commits, pays the debts of others that it can, and leaves the rest to one that may
// replace objects, without endless retries.
func TestAppendOnlyCredentials(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	b := newBackend(t, awstest.DynamoDB(t))
	creator := b.open(t, nil, nil)
	s := addStore(t, creator, "notes")
	closeOnce(t, creator)
	name := descriptionKey(s.ID)
	owes := func() bool {
		t.Helper()
		i, err := creator.table.get(ctx, s.ID, descriptionSort, false)
		if err != nil {
			t.Fatal(err)
		}
		return i != nil
	}
	owe := func() {
		t.Helper()
		if err := creator.table.write(ctx, []types.WriteRequest{putRequest(descriptionOut(s.ID, 0))}); err != nil {
			t.Fatal(err)
		}
	}
	described := func() []byte {
		t.Helper()
		data, err := creator.records.get(ctx, name)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	want := described()

	// A `store create` that was killed before it described the store.
	if err := creator.records.remove(ctx, name); err != nil {
		t.Fatal(err)
	}
	owe()
	var heard bytes.Buffer
	transport := newTransport()
	transport.Arm(fault.Fault{Site: "s3 *", Action: appendOnly})
	session := func(path string) int {
		t.Helper()
		transport.Reset()
		l := b.open(t, transport, &Options{Logger: slog.New(slog.NewTextHandler(&heard, &slog.HandlerOptions{Level: slog.LevelWarn}))})
		write(t, l, s.ID, path, "text")
		l.settled()
		l.store(s.ID).sweepLater(0) // as after a commit of another process
		l.settled()
		closeOnce(t, l)
		return transport.Calls()["s3 PUT store.json"]
	}
	session("/a")
	if !bytes.Equal(described(), want) || owes() {
		t.Errorf("a missing description: it is now %s, owed %v", described(), owes())
	}

	// A `store archive` that was killed likewise.
	_, err := creator.records.s3.PutObject(ctx, &s3.PutObjectInput{
		Bucket: aws.String(b.bucket), Key: &name, Body: bytes.NewReader([]byte("{}")),
	})
	if err != nil {
		t.Fatal(err)
	}
	owe()
	if n := session("/b"); n > 2 || !owes() || string(described()) != "{}" {
		t.Errorf("another description: %d PUTs, owed %v, it is now %s", n, owes(), described())
	}
	if heard.Len() > 0 {
		t.Errorf("it warns of what is not its own to do:\n%s", &heard)
	}
	l := b.open(t, nil, nil)
	write(t, l, s.ID, "/c", "text")
	l.settled()
	if !bytes.Equal(described(), want) || owes() {
		t.Errorf("replaced by one that may: it is now %s, owed %v", described(), owes())
	}
	if found := b.check(t, s.ID); len(found) > 0 {
		t.Errorf("afterwards: %q", found)
	}
}

// TestPutsHaveChecksums holds that the server can verify every object.
func TestPutsHaveChecksums(t *testing.T) {
	t.Parallel()
	b := newBackend(t, awstest.DynamoDB(t))
	transport := newTransport()
	puts := transport.Arm(fault.Fault{Site: "s3 PUT *", Action: func(req *http.Request, body []byte, send func() (*http.Response, error)) (*http.Response, error) {
		sum := sha256.Sum256(body)
		if got, want := req.Header.Get("X-Amz-Checksum-Sha256"), base64.StdEncoding.EncodeToString(sum[:]); got != want {
			t.Errorf("%s has checksum %q, want %q", req.URL.Path, got, want)
		}
		return send()
	}})
	l := b.open(t, transport, nil)
	s := addStore(t, l, "notes")
	write(t, l, s.ID, "/a", "1")
	if err := happen(t.Context(), l, s.ID, versionlog.StoreArchived()); err != nil {
		t.Fatal(err)
	}
	closeOnce(t, l)
	if puts.Hits() < 3 {
		t.Errorf("%d objects were put, want a record and a description twice", puts.Hits())
	}
}
