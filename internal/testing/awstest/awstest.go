// Package awstest starts real servers of S3 and DynamoDB for tests, on 127.0.0.1
// and free ports, with empty data of their own. scripts/install-test-servers.sh
// installs them; a test that needs one that is missing is skipped by
// internal/testing/skip, which fails under MNEME_NOSKIP=1.
//
// The servers end with the test process, however it ends.
package awstest

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	s3types "github.com/aws/aws-sdk-go-v2/service/s3/types"

	"mneme/internal/awsconf"
)

// The credentials and region that every server of this package accepts.
const (
	AccessKey = "test"
	SecretKey = "testtest"
	Region    = "us-east-1"
)

var names atomic.Int64 // of buckets and tables, so that none is used twice

// S3 returns the endpoint of the process's versitygw.
func S3(t testing.TB) string {
	t.Helper()
	return sharedServer(t, versitygw).Endpoint
}

// DynamoDB returns the endpoint of the process's dynoxide, which keeps its data
// in memory.
func DynamoDB(t testing.TB) string {
	t.Helper()
	return sharedServer(t, dynoxide).Endpoint
}

// DynamoDBLocal returns the endpoint of the process's DynamoDB Local, AWS's own.
func DynamoDBLocal(t testing.TB) string {
	t.Helper()
	return sharedServer(t, dynamoDBLocal).Endpoint
}

// Env returns the variables that make a child process use S3 and DynamoDB of
// this package, and nothing of the person's own configuration.
func Env(t testing.TB) []string {
	t.Helper()
	return EnvFor(S3(t), DynamoDB(t))
}

// EnvFor is Env for given endpoints.
func EnvFor(s3Endpoint, dynamoEndpoint string) []string {
	return []string{
		"AWS_ENDPOINT_URL_S3=" + s3Endpoint, "AWS_ENDPOINT_URL_DYNAMODB=" + dynamoEndpoint,
		"AWS_ACCESS_KEY_ID=" + AccessKey, "AWS_SECRET_ACCESS_KEY=" + SecretKey, "AWS_REGION=" + Region,
		"AWS_SESSION_TOKEN=", "AWS_PROFILE=", "AWS_CA_BUNDLE=", // empty is unset
		"AWS_EC2_METADATA_DISABLED=true", "AWS_CONFIG_FILE=/nonexistent", "AWS_SHARED_CREDENTIALS_FILE=/nonexistent",
	}
}

// Clients returns clients of S3 and DynamoDB as awsconf.Load makes them. A nil
// transport is awsconf's default. They pause for milliseconds only before a retry. They
// ignore the environment of the test process.
func Clients(t testing.TB, transport http.RoundTripper) *awsconf.Clients {
	t.Helper()
	return ClientsFor(t, &awsconf.Options{Transport: transport}, S3(t), DynamoDB(t))
}

// ClientsFor is Clients with all options, for given endpoints. An empty endpoint
// leaves a client that reaches nothing.
func ClientsFor(t testing.TB, opts *awsconf.Options, s3Endpoint, dynamoEndpoint string) *awsconf.Clients {
	t.Helper()
	const nowhere = "http://127.0.0.1:1"
	clients, err := awsconf.LoadFrom(t.Context(), opts, &awsconf.Fixed{
		Region: Region, Credentials: credentials.NewStaticCredentialsProvider(AccessKey, SecretKey, ""),
		S3Endpoint: or(s3Endpoint, nowhere), DynamoDBEndpoint: or(dynamoEndpoint, nowhere),
		FirstPause: 5 * time.Millisecond, Attempt: 10 * time.Second, // on a machine that does much else
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(clients.CloseIdleConnections)
	return clients
}

func or(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

// Name returns a name for a bucket or a table that nothing else has.
func Name(kind string) string {
	return fmt.Sprintf("%s-%d-%d", kind, os.Getpid(), names.Add(1))
}

// Bucket makes a bucket and returns its name.
func Bucket(t testing.TB) string {
	t.Helper()
	name := Name("bucket")
	MakeBucket(t, Clients(t, nil).S3, name)
	return name
}

// MakeBucket makes a bucket of that name.
func MakeBucket(t testing.TB, client *s3.Client, name string) {
	t.Helper()
	_, err := client.CreateBucket(t.Context(), &s3.CreateBucketInput{Bucket: &name})
	var made *s3types.BucketAlreadyOwnedByYou // by an attempt whose reply was too late
	if err != nil && !errors.As(err, &made) {
		t.Fatal(err)
	}
}

// Table makes a table on the shared dynoxide and returns its name.
func Table(t testing.TB) string {
	t.Helper()
	name := Name("table")
	MakeTable(t, Clients(t, nil).DynamoDB, name)
	return name
}

// MakeTable makes a table of that name with mneme's keys: store_id and sk.
func MakeTable(t testing.TB, client *dynamodb.Client, name string) {
	t.Helper()
	key := func(name string, kind types.KeyType) types.KeySchemaElement {
		return types.KeySchemaElement{AttributeName: aws.String(name), KeyType: kind}
	}
	text := func(name string) types.AttributeDefinition {
		return types.AttributeDefinition{AttributeName: aws.String(name), AttributeType: types.ScalarAttributeTypeS}
	}
	_, err := client.CreateTable(t.Context(), &dynamodb.CreateTableInput{
		TableName: &name, BillingMode: types.BillingModePayPerRequest,
		KeySchema:            []types.KeySchemaElement{key("store_id", types.KeyTypeHash), key("sk", types.KeyTypeRange)},
		AttributeDefinitions: []types.AttributeDefinition{text("store_id"), text("sk")},
	})
	var made *types.ResourceInUseException // as with buckets
	if err != nil && !errors.As(err, &made) {
		t.Fatal(err)
	}
	_, err = client.UpdateTimeToLive(t.Context(), &dynamodb.UpdateTimeToLiveInput{
		TableName:               &name,
		TimeToLiveSpecification: &types.TimeToLiveSpecification{AttributeName: aws.String("expires"), Enabled: aws.Bool(true)},
	})
	if err != nil && !strings.Contains(err.Error(), "already enabled") { // likewise
		t.Fatal(err)
	}
}

// KeepServers has the servers found where they are, by a TestMain that gives its tests another home.
func KeepServers() error { return os.Setenv("MNEME_TEST_SERVERS", directory()) }

// directory is where scripts/install-test-servers.sh installs.
func directory() string {
	if dir := os.Getenv("MNEME_TEST_SERVERS"); dir != "" {
		return dir
	}
	cache := os.Getenv("XDG_CACHE_HOME")
	if cache == "" {
		cache = filepath.Join(os.Getenv("HOME"), ".cache")
	}
	return filepath.Join(cache, "mneme-test-servers")
}

// keepPath returns the environment of a server: nothing that could change what
// it does.
func keepPath() []string {
	var kept []string
	for _, entry := range os.Environ() {
		if name, _, _ := strings.Cut(entry, "="); name == "PATH" || name == "HOME" || name == "JAVA_HOME" || name == "TMPDIR" {
			kept = append(kept, entry)
		}
	}
	return kept
}
