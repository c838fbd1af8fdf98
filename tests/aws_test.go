package tests

import (
	"encoding/json"
	"fmt"
	"testing"

	"mneme/cas"
	"mneme/cas/s3cas"
	"mneme/internal/awsconf"
	"mneme/internal/testing/awstest"
	"mneme/memory"
	"mneme/versionlog"
	"mneme/versionlog/dynamolog"
)

// onAWSPrefix begins the names of the tests whose environments are remote.
const onAWSPrefix = "TestOnAWS/"

// TestOnAWS runs the tests of what people and programs do with a mount once
// more, on S3 and DynamoDB instead of the embedded store.
func TestOnAWS(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"Shell", TestShell}, {"Coreutils", TestCoreutils}, {"Editors", TestEditors}, {"Sync", TestSync},
		{"Languages", TestLanguages}, {"AnyContent", TestAnyContent},
		{"TooBig", TestTooBig}, {"NotText", TestNotText}, {"Names", TestNames}, {"NamesFromElsewhere", TestNamesFromElsewhere},
		{"OtherLimits", TestOtherLimits}, {"Refused", TestRefused},
		{"FsyncThroughAnyDescriptor", TestFsyncThroughAnyDescriptor}, {"Handles", TestHandles}, {"Directories", TestDirectories}, {"Remount", TestRemount}, {"Scratch", TestScratch},
		{"TemporaryNames", TestTemporaryNames}, {"UnmountSavesOpenFiles", TestUnmountSavesOpenFiles},
		{"MountsOfOneStore", TestMountsOfOneStore}, {"SmallRaces", TestSmallRaces}, {"TwoSessionsAtOneFile", TestTwoSessionsAtOneFile},
		{"DirectoriesOfTwoSessions", TestDirectoriesOfTwoSessions}, {"Appends", TestAppends},
		{"ChangesArrive", TestChangesArrive}, {"OpenReadersKeepTheirVersion", TestOpenReadersKeepTheirVersion}, {"XattrsTellTheVersion", TestXattrsTellTheVersion},
		{"CommandLineBesideMount", TestCommandLineBesideMount}, {"ConditionalWriteBesideMount", TestConditionalWriteBesideMount},
		{"ReadOnly", TestReadOnly}, {"ReadOnlyFollows", TestReadOnlyFollows}, {"ArchivedWhileMounted", TestArchivedWhileMounted},
		{"ScratchSurvivesKill", TestScratchSurvivesKill}, {"NothingVanishesAtTheEnd", TestNothingVanishesAtTheEnd},
		{"StoppedDaemon", TestStoppedDaemon}, {"Metrics", TestMetrics},
		{"EndOfMountedStore", TestEndOfMountedStore}, {"PlacesInMounts", TestPlacesInMounts},
		{"KeeperRemembers", TestKeeperRemembers},
	} {
		t.Run(test.name, test.run)
	}
}

// remote is where the stores of a test are that are not embedded.
type remote struct {
	s3, dynamo    string // endpoints
	bucket, table string
	vars          []string // for mneme
}

var remoteCount counter

// goRemote gives the test's stores a bucket and a table of their own.
func (e *env) goRemote(s3, dynamo string) {
	e.t.Helper()
	n := remoteCount.next()
	e.remote = &remote{
		s3: s3, dynamo: dynamo, bucket: fmt.Sprintf("tests-%d", n), table: fmt.Sprintf("tests-%d", n),
		vars: awstest.EnvFor(s3, dynamo),
	}
	e.must(e.t, "setup")
}

func (r *remote) url() string { return "aws://" + r.bucket + "?table=" + r.table }

// remoteBlob reads a content from the bucket.
func (e *env) remoteBlob(t testing.TB, sum string) string {
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

// blobs are the blobs of a store in the bucket.
func (e *env) blobs(t testing.TB, store string) *s3cas.Store {
	t.Helper()
	clients := awstest.ClientsFor(t, &awsconf.Options{}, e.remote.s3, e.remote.dynamo)
	return s3cas.Open(clients.S3, e.remote.bucket, "stores/"+e.storeID(t, store))
}

// otherSession opens a store for a session that is not of a mount.
func (e *env) otherSession(t testing.TB, store string) *memory.Store {
	t.Helper()
	var lib *memory.Library
	if e.remote == nil {
		stores, err := openEmbedded(t.Context(), e.stores)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = stores.Close() })
		lib = stores.Library
	} else {
		clients := awstest.ClientsFor(t, nil, e.remote.s3, e.remote.dynamo)
		log, err := dynamolog.Open(t.Context(), clients.DynamoDB, e.remote.table, clients.S3, e.remote.bucket, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = log.Close() })
		lib = memory.NewLibrary(log, func(id string) (cas.Store, error) {
			return s3cas.Open(clients.S3, e.remote.bucket, "stores/"+id), nil
		})
	}
	info, err := lib.FindStore(t.Context(), store)
	if err != nil {
		t.Fatal(err)
	}
	session := &memory.Author{Actor: versionlog.Actor{Kind: versionlog.ActorSession, ID: "other"}, Session: "other"}
	s, err := lib.Open(t.Context(), info.ID, session)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (e *env) storeID(t testing.TB, store string) string {
	t.Helper()
	var info struct {
		ID string `json:"id"`
	}
	if err := json.Unmarshal([]byte(e.must(t, "store", "show", store, "--json")), &info); err != nil {
		t.Fatal(err)
	}
	return info.ID
}
