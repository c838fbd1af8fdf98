package s3cas_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/google/go-cmp/cmp"

	"mneme/cas"
	"mneme/cas/castest"
	"mneme/cas/s3cas"
	"mneme/internal/awsconf"
	"mneme/internal/testing/awstest"
	"mneme/internal/testing/fault"
)

var prefixes atomic.Int64

func newPrefix() string { return fmt.Sprintf("stores/memstore_%d", prefixes.Add(1)) }

func key(prefix string, d cas.Digest) string {
	return prefix + "/blobs/" + d.String()[:2] + "/" + d.String()
}

// overwrite replaces the stored bytes of d behind the store's back.
func overwrite(t *testing.T, clients *awsconf.Clients, bucket, prefix string, d cas.Digest, data string) {
	t.Helper()
	_, err := clients.S3.PutObject(t.Context(), &s3.PutObjectInput{
		Bucket: &bucket, Key: aws.String(key(prefix, d)), Body: strings.NewReader(data),
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestConformance(t *testing.T) {
	clients, bucket := awstest.Clients(t, nil), awstest.Bucket(t)
	at := make(map[cas.Store]string)
	open := func(prefix string) cas.Store {
		s := s3cas.Open(clients.S3, bucket, prefix)
		at[s] = prefix
		return s
	}
	castest.Run(t, castest.Config{
		Open:   func(*testing.T) cas.Store { return open(newPrefix()) },
		Reopen: func(_ *testing.T, s cas.Store) cas.Store { return open(at[s]) },
		Corrupt: func(t *testing.T, s cas.Store, d cas.Digest, data []byte) {
			overwrite(t, clients, bucket, at[s], d, string(data))
		},
	})
}

// TestLayout pins the keys, which other programs and policies rely on.
func TestLayout(t *testing.T) {
	server := awstest.NewS3(t)
	clients := awstest.ClientsFor(t, nil, server.Endpoint, "")
	awstest.MakeBucket(t, clients.S3, "bucket")
	s := s3cas.Open(clients.S3, "bucket", "stores/memstore_x")
	if _, err := s.Put(t.Context(), []byte("hello\n")); err != nil {
		t.Fatal(err)
	}
	const sum = "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03"
	data, err := os.ReadFile(filepath.Join(server.Dir(), "s3", "bucket", "stores", "memstore_x", "blobs", "58", sum))
	if err != nil || string(data) != "hello\n" {
		t.Errorf("%q, %v", data, err)
	}
}

// TestStoresAreApart checks that a store sees nothing of another in the same
// bucket, and passes over what is not a blob.
func TestStoresAreApart(t *testing.T) {
	clients, bucket, prefix := awstest.Clients(t, nil), awstest.Bucket(t), newPrefix()
	mine, other := s3cas.Open(clients.S3, bucket, prefix), s3cas.Open(clients.S3, bucket, prefix+"0")
	d, err := mine.Put(t.Context(), []byte("mine"))
	if err != nil {
		t.Fatal(err)
	}
	if has, err := other.Has(t.Context(), d); has || err != nil {
		t.Errorf("the other store has it: %v, %v", has, err)
	}
	if _, err := other.Put(t.Context(), []byte("other")); err != nil {
		t.Fatal(err)
	}
	for _, stray := range []string{"/blobs/README", "/blobs/00/" + cas.Sum([]byte("x")).String(), "/log/1"} {
		_, err := clients.S3.PutObject(t.Context(), &s3.PutObjectInput{Bucket: &bucket, Key: aws.String(prefix + stray), Body: strings.NewReader("x")})
		if err != nil {
			t.Fatal(err)
		}
	}
	var listed []string
	for d, err := range mine.List(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		listed = append(listed, d.String())
	}
	if diff := cmp.Diff([]string{d.String()}, listed); diff != "" {
		t.Errorf("List (-want +got):\n%s", diff)
	}
}

// TestManyPages lists more blobs than one reply holds.
func TestManyPages(t *testing.T) {
	transport := fault.New(nil)
	clients, bucket, prefix := awstest.Clients(t, transport), awstest.Bucket(t), newPrefix()
	s := s3cas.Open(clients.S3, bucket, prefix)
	const blobs = 1100
	want := make(map[cas.Digest]bool)
	for i := range blobs {
		want[cas.Sum(fmt.Append(nil, i))] = true
	}
	limit := make(chan struct{}, 16)
	for i := range blobs {
		limit <- struct{}{}
		go func() {
			defer func() { <-limit }()
			if _, err := s.Put(t.Context(), fmt.Append(nil, i)); err != nil {
				t.Error(err)
			}
		}()
	}
	for range cap(limit) {
		limit <- struct{}{}
	}
	got := make(map[cas.Digest]bool)
	for d, err := range s.List(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		got[d] = true
	}
	if !maps.Equal(got, want) {
		t.Errorf("listed %d blobs, want %d", len(got), len(want))
	}
	if n := transport.Calls()["s3 LIST blobs"]; n != 2 {
		t.Errorf("%d requests to list %d blobs, want 2", n, blobs)
	}
}

// TestRequests pins what each call costs.
func TestRequests(t *testing.T) {
	transport := fault.New(nil)
	clients, bucket, prefix := awstest.Clients(t, transport), awstest.Bucket(t), newPrefix()
	s := s3cas.Open(clients.S3, bucket, prefix)
	ctx, data := t.Context(), []byte("data")
	d := cas.Sum(data)
	put := func() error { _, err := s.Put(ctx, data); return err }
	get := func() error { _, err := s.Get(ctx, d); return err }
	has := func() error { _, err := s.Has(ctx, d); return err }
	damage := func() { overwrite(t, awstest.Clients(t, nil), bucket, prefix, d, "dada") }
	tests := []struct {
		name   string
		before func()
		call   func() error
		want   map[string]int
		fails  bool
	}{
		{"get what is missing", nil, get, map[string]int{"s3 GET blobs": 1}, true},
		{"has what is missing", nil, has, map[string]int{"s3 GET blobs": 1}, false},
		{"put", nil, put, map[string]int{"s3 PUT blobs": 1}, false},
		{"put again", nil, put, map[string]int{"s3 PUT blobs": 1, "s3 GET blobs": 1}, false},
		{"get", nil, get, map[string]int{"s3 GET blobs": 1}, false},
		{"has", nil, has, map[string]int{"s3 GET blobs": 1}, false},
		{"get damaged", damage, get, map[string]int{"s3 GET blobs": 2}, true},
		{"put over damaged", damage, put, map[string]int{"s3 PUT blobs": 2, "s3 GET blobs": 2}, false},
		{"delete", nil, func() error { return s.Delete(ctx, d) }, map[string]int{"s3 DELETE blobs": 1}, false},
	}
	for _, test := range tests {
		if test.before != nil {
			test.before()
		}
		transport.Reset()
		if err := test.call(); (err != nil) != test.fails {
			t.Errorf("%s: error %v", test.name, err)
		}
		if diff := cmp.Diff(test.want, transport.Calls()); diff != "" {
			t.Errorf("%s: requests (-want +got):\n%s", test.name, diff)
		}
	}
}
