package harness

import (
	"encoding/json"
	"path/filepath"
	"testing"

	"mneme/cas"
	"mneme/cas/s3cas"
	"mneme/internal/awsconf"
	"mneme/internal/testing/awstest"
	"mneme/memory"
	"mneme/versionlog/dynamolog"
)

// RemoteBlob reads a content from the bucket.
func (e *Env) RemoteBlob(t testing.TB, sum string) string {
	t.Helper()
	d, err := cas.ParseDigest(sum)
	if err != nil {
		t.Fatal(err)
	}
	data, err := e.blobs(t, "notes").Get(t.Context(), d)
	if err != nil {
		t.Fatalf("blob %s: %v", sum, err)
	}
	return string(data)
}

// RemoteHolders returns the rows and objects of a remote environment that have a text.
func (e *Env) RemoteHolders(t testing.TB, text string) []string {
	t.Helper()
	return awstest.Holders(t, e.Remote.bucket, e.Remote.table, text)
}

// blobs are the blobs of a store in the bucket.
func (e *Env) blobs(t testing.TB, store string) *s3cas.Store {
	t.Helper()
	clients := awstest.ClientsFor(t, &awsconf.Options{}, e.Remote.s3, e.Remote.dynamo)
	return s3cas.Open(clients.S3, e.Remote.bucket, "stores/"+e.storeID(t, store))
}

// OtherSession opens a store for a session that is not of a mount.
func (e *Env) OtherSession(t testing.TB, store string) *memory.Store {
	t.Helper()
	var lib *memory.Library
	if e.Remote == nil {
		stores, err := OpenEmbedded(t.Context(), e.Stores)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = stores.Close() })
		lib = stores.Library
	} else {
		clients := awstest.ClientsFor(t, nil, e.Remote.s3, e.Remote.dynamo)
		log, err := dynamolog.Open(t.Context(), clients.DynamoDB, e.Remote.table, clients.S3, e.Remote.bucket, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = log.Close() })
		lib = memory.NewLibrary(log, func(id string) (cas.Store, error) {
			return s3cas.Open(clients.S3, e.Remote.bucket, "stores/"+id), nil
		})
	}
	info, err := lib.FindStore(t.Context(), store)
	if err != nil {
		t.Fatal(err)
	}
	session := memory.SessionAuthor("other")
	s, err := lib.Open(t.Context(), info.ID, session)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (e *Env) storeID(t testing.TB, store string) string {
	t.Helper()
	var info struct {
		ID string `json:"id"`
	}
	if err := json.Unmarshal([]byte(e.Must(t, "store", "show", store, "--json")), &info); err != nil {
		t.Fatal(err)
	}
	return info.ID
}

// OwnServers gives the test's stores servers of the test's own.
func (e *Env) OwnServers() (s3, dynamo *awstest.Server) {
	e.t.Helper()
	s3, dynamo = awstest.NewS3(e.t), awstest.NewDynamoDB(e.t)
	e.GoRemote(s3.Endpoint, dynamo.Endpoint)
	e.Stores = filepath.Join(s3.Dir(), "s3")
	return s3, dynamo
}
