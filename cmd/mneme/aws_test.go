package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"mneme/internal/testing/awstest"
)

// place of one test on the shared servers.
type awsPlace struct {
	t    *testing.T
	url  string
	vars []string
	home string
}

var awsPlaces atomic.Int64

// newAWSPlace makes a bucket and a table with mneme itself, and a store notes
// with one memory.
func newAWSPlace(t *testing.T) *awsPlace {
	t.Helper()
	n := awsPlaces.Add(1)
	p := &awsPlace{
		t: t, url: fmt.Sprintf("aws://cmd-%d-%d?table=cmd-%d", os.Getpid(), n, n),
		vars: awstest.Env(t), home: t.TempDir(),
	}
	p.must("", "setup")
	p.must("", "store", "create", "notes")
	p.must("one\n", "write", "notes:/a.md")
	return p
}

// with returns the place seen with other variables and another URL.
func (p *awsPlace) with(url string, vars ...string) *awsPlace {
	q := *p
	q.vars = append(slices.Clone(p.vars), vars...)
	if url != "" {
		q.url = url
	}
	return &q
}

// outcome is how a command ended.
type outcome struct {
	code           int
	stdout, stderr string
	took           time.Duration
}

// mneme runs the command as a process of its own.
func (p *awsPlace) mneme(stdin string, args ...string) outcome {
	p.t.Helper()
	// A mount that should have failed would go on for ever.
	ctx, cancel := context.WithTimeout(p.t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "mneme", args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) } // so that it unmounts
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + p.home, "MNEME_URL=" + p.url, "GORACE=atexit_sleep_ms=0"}, p.vars...)
	cmd.Stdin = strings.NewReader(stdin)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	began := time.Now()
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && ctx.Err() == nil && !errors.As(err, &exit) {
		p.t.Fatal(err)
	}
	return outcome{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String(), time.Since(began)}
}

func (p *awsPlace) must(stdin string, args ...string) string {
	p.t.Helper()
	e := p.mneme(stdin, args...)
	if e.code != 0 {
		p.t.Fatalf("mneme %s: exit code %d\n%s", strings.Join(args, " "), e.code, e.stderr)
	}
	return e.stdout
}

// TestAWSTrouble: whatever is wrong with bucket, table, credentials or network,
// the message says what to do, the exit code fits, and nothing hangs.
func TestAWSTrouble(t *testing.T) {
	t.Parallel()
	p := newAWSPlace(t)
	bucket, table, _ := strings.Cut(strings.TrimPrefix(p.url, "aws://"), "?table=")
	foreign := foreignTables(t, bucket)
	for half := range 2 {
		var puts []string
		for i := range 20 {
			puts = append(puts, fmt.Sprintf(`{"action":"put","path":"/many/%d-%d","content":""}`, half, i))
		}
		p.must(`{"changes":[`+strings.Join(puts, ",")+`]}`, "apply", "notes")
	}
	write := []string{"write", "notes:/b.md"}
	mount := func() []string { return []string{"mount", "notes", "--at", t.TempDir()} }
	bucketless := newAWSPlace(t)
	_, its, _ := strings.Cut(bucketless.url, "?table=")
	gone := bucketless.with("aws://" + its + "-gone?table=" + its)
	dynamoDB(t, "PutItem", fmt.Sprintf(`{"TableName":%q,"Item":{"store_id":{"S":"FORMAT"},"sk":{"S":"FORMAT"},"format":{"N":"3"},"bucket":{"S":%q}}}`, its, its+"-gone"))
	list := []string{"store", "list"}
	tests := []struct {
		name string
		at   *awsPlace
		args []string
		code int
		want string
	}{
		{"no such bucket", gone, write, 3, "bucket does not exist: .*mneme setup"},
		{"another bucket", p.with("aws://another-bucket?table=" + table), write, 1, "index of bucket " + bucket + ", not of bucket another-bucket: .*setup --move"},
		{"another bucket, read", p.with("aws://another-bucket?table=" + table), list, 1, "index of bucket " + bucket + ", not of bucket another-bucket: "},
		{"setup of another bucket", p.with("aws://another-bucket?table=" + table), []string{"setup"}, 1, "index of bucket " + bucket + ", not of bucket another-bucket: "},
		{"mount, no such bucket", gone, mount(), 3, its + "-gone: the bucket does not exist"},
		{"mount, S3 down", p.with("", "AWS_ENDPOINT_URL_S3=http://127.0.0.1:1"), mount(), 1, "127.0.0.1:1 cannot be reached"},
		{"mount, S3 silent", p.with("", "AWS_ENDPOINT_URL_S3="+silent(t)), mount(), 1, "did not answer in time|cannot be reached"},
		{"too many changes", p, []string{"mv", "notes:/many", "notes:/more"}, 6, "too many changes.*97 files written, 48 removed or 32 renamed.*split"},
		{"no such table", p.with("aws://" + bucket + "?table=no-such-table"), list, 3, "table does not exist .*AWS_REGION.*mneme setup"},
		{"a table of something else", p.with("aws://" + bucket + "?table=" + foreign.keys), list, 1, "not mneme's: .*name another table"},
		{"setup on it", p.with("aws://" + bucket + "?table=" + foreign.keys), []string{"setup"}, 1, "not one of mneme's: .*name another table"},
		{"a table with no format", p.with("aws://" + bucket + "?table=" + foreign.empty), list, 1, "mneme setup"},
		{"a table of a newer mneme", p.with("aws://" + bucket + "?table=" + foreign.newer), list, 1, "format 99, .*use a newer mneme"},
		{"setup on that", p.with("aws://" + bucket + "?table=" + foreign.newer), []string{"setup"}, 1, "use a newer mneme"},
		{"a table of an older mneme", p.with("aws://" + bucket + "?table=" + foreign.older), write, 1, "of an older mneme; end the mounts of that.*mneme setup"},
		{"another region", p.with("", "AWS_REGION=eu-west-1"), write, 1, "region|AWS_REGION|signature"},
		{"no region", p.with("", "AWS_REGION="), list, 1, "no AWS region is set: set AWS_REGION"},
		{"no credentials", p.with("", "AWS_ACCESS_KEY_ID=", "AWS_SECRET_ACCESS_KEY="), list, 5, "no AWS credentials were found: set AWS_ACCESS_KEY_ID"},
		{"no such profile", p.with("", "AWS_PROFILE=nobody"), list, 1, `no AWS profile "nobody"`},
		{"an unknown key", p.with("", "AWS_ACCESS_KEY_ID=AKIANOBODY"), write, 5, "does not know this access key: check AWS_ACCESS_KEY_ID"},
		{"a wrong secret", p.with("", "AWS_SECRET_ACCESS_KEY=wrong"), write, 5, "does not accept the signature: check AWS_SECRET_ACCESS_KEY"},
		{"DynamoDB down", p.with("", "AWS_ENDPOINT_URL_DYNAMODB=http://127.0.0.1:1"), list, 1, "127.0.0.1:1 cannot be reached"},
		{"S3 down", p.with("", "AWS_ENDPOINT_URL_S3=http://127.0.0.1:1"), write, 1, "127.0.0.1:1 cannot be reached"},
		{"DynamoDB silent", p.with("", "AWS_ENDPOINT_URL_DYNAMODB="+silent(t)), list, 1, "did not answer in time|cannot be reached"},
		{"S3 silent", p.with("", "AWS_ENDPOINT_URL_S3="+silent(t)), write, 1, "did not answer in time|cannot be reached"},
		{"expired for DynamoDB", p.with("", "AWS_ENDPOINT_URL_DYNAMODB="+expiredDynamoDB(t)), list, 5, "credentials have expired: renew them"},
		{"expired for S3", p.with("", "AWS_ENDPOINT_URL_S3="+expiredS3(t)), write, 5, "credentials have expired: renew them"},
		{"denied", p.with("", "AWS_ENDPOINT_URL_DYNAMODB="+deniedDynamoDB(t)), list, 5, "access denied: .*dynamodb:GetItem.*mneme setup --print"},
		{"mount, DynamoDB down", p.with("", "AWS_ENDPOINT_URL_DYNAMODB=http://127.0.0.1:1"), []string{"mount", "notes", "--at", t.TempDir()}, 1, "cannot be reached"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			e := test.at.mneme("two\n", test.args...)
			if e.code != test.code || !regexp.MustCompile(test.want).MatchString(e.stderr) {
				t.Errorf("exit code %d, want %d; it says\n%swant %q", e.code, test.code, e.stderr, test.want)
			}
			const patience = 15 * time.Second // and some for a busy machine
			if e.took > 2*patience {
				t.Errorf("it took %v", e.took)
			}
			if strings.Count(e.stderr, "\n") != 1 || len(e.stderr) > 700 {
				t.Errorf("it says too much:\n%s", e.stderr)
			}
			if strings.Contains(e.stderr, awstest.SecretKey) {
				t.Errorf("it tells the secret:\n%s", e.stderr)
			}
		})
	}
}

// TestAWSPlainHTTP: a command whose endpoint is plain HTTP to another machine
// sends nothing and says how to allow it; flag and variable do.
func TestAWSPlainHTTP(t *testing.T) {
	t.Parallel()
	p := newAWSPlace(t).with("", "AWS_ENDPOINT_URL_S3=http://s3.example.org")
	for _, args := range [][]string{{"store", "list"}, {"setup"}, {"fsck", "--rebuild-index"}, {"mount", "notes", "--at", t.TempDir()}} {
		e := p.mneme("", args...)
		if e.code != 1 || !strings.Contains(e.stderr, "http://s3.example.org is plain HTTP") || !strings.Contains(e.stderr, "MNEME_INSECURE=1; --insecure") {
			t.Errorf("mneme %s: exit code %d, %s", strings.Join(args, " "), e.code, e.stderr)
		}
	}
	p.must("", "store", "list", "--insecure")
	p.with("", "MNEME_INSECURE=1").must("", "store", "list")
}

// TestAWSBucketOwner: setup refuses a bucket that is not the named account's,
// and once the owner is in the table, no command uses another's bucket. The
// account of versitygw is its access key.
func TestAWSBucketOwner(t *testing.T) {
	t.Parallel()
	p := newAWSPlace(t)
	bucket, table, _ := strings.Cut(strings.TrimPrefix(p.url, "aws://"), "?table=")
	if e := p.mneme("", "setup", "--bucket-owner", "somebody"); e.code != 1 || !strings.Contains(e.stderr, "belongs to another account, not to somebody") || !strings.Contains(e.stderr, "--bucket-owner ACCOUNT") {
		t.Errorf("exit code %d, %s", e.code, e.stderr)
	}
	if e := p.mneme("", "setup", "--bucket-owner", "some body"); e.code != 2 {
		t.Errorf("exit code %d, %s", e.code, e.stderr)
	}
	if got := p.must("", "setup", "--bucket-owner", awstest.AccessKey); !strings.Contains(got, "owner of bucket "+bucket+": ready (test)") {
		t.Errorf("setup says\n%s", got)
	}
	p.must("", "setup") // keeps it
	p.must("two\n", "write", "notes:/a.md")
	if got := dynamoDB(t, "GetItem", fmt.Sprintf(`{"TableName":%q,"Key":{"store_id":{"S":"FORMAT"},"sk":{"S":"FORMAT"}}}`, table)); !strings.Contains(got, `"bucket_owner":{"S":"test"}`) {
		t.Errorf("the table names no owner: %s", got)
	}
	dynamoDB(t, "PutItem", fmt.Sprintf(`{"TableName":%q,"Item":{"store_id":{"S":"FORMAT"},"sk":{"S":"FORMAT"},"format":{"N":"3"},"bucket":{"S":%q},"bucket_owner":{"S":"somebody"}}}`, table, bucket))
	for _, args := range [][]string{
		{"write", "notes:/b.md"}, {"fsck", "notes"}, {"fsck", "--rebuild-index"}, {"mount", "notes", "--at", t.TempDir()}, {"setup"},
	} {
		e := p.mneme("three\n", args...)
		if e.code == 0 || !regexp.MustCompile("belong to somebody|not to somebody").MatchString(e.stderr) {
			t.Errorf("mneme %s: exit code %d, %s%s", strings.Join(args, " "), e.code, e.stdout, e.stderr)
		}
	}
}

// silent is an endpoint that takes connections and never answers.
func silent(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { _ = c.Close() })
		}
	}()
	return "http://" + l.Addr().String()
}

// answering is an endpoint that answers everything with one error.
func answering(t *testing.T, status int, body string) string {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

func expiredDynamoDB(t *testing.T) string {
	return answering(t, 400, `{"__type":"com.amazon.coral.service#ExpiredTokenException","message":"The security token included in the request is expired"}`)
}

func expiredS3(t *testing.T) string {
	return answering(t, 400, `<?xml version="1.0"?><Error><Code>ExpiredToken</Code><Message>The provided token has expired.</Message></Error>`)
}

func deniedDynamoDB(t *testing.T) string {
	return answering(t, 400, `{"__type":"com.amazon.coral.service#AccessDeniedException","Message":"User: arn:aws:iam::1:user/x is not authorized to perform: dynamodb:GetItem on resource: arn:aws:dynamodb:us-east-1:1:table/t"}`)
}

// foreignTables makes tables that are not quite mneme's.
func foreignTables(t *testing.T, bucket string) (made struct{ keys, empty, newer, older string }) {
	t.Helper()
	name := func(what string) string { return fmt.Sprintf("%s-%d", what, awsPlaces.Add(1)) }
	made.keys, made.empty, made.newer, made.older = name("foreign"), name("empty"), name("newer"), name("older")
	for table, keys := range map[string][2]string{
		made.keys: {"pk", "sk"}, made.empty: {"store_id", "sk"}, made.newer: {"store_id", "sk"}, made.older: {"store_id", "sk"},
	} {
		dynamoDB(t, "CreateTable", fmt.Sprintf(`{"TableName":%q,"BillingMode":"PAY_PER_REQUEST",
			"AttributeDefinitions":[{"AttributeName":%q,"AttributeType":"S"},{"AttributeName":%q,"AttributeType":"S"}],
			"KeySchema":[{"AttributeName":%q,"KeyType":"HASH"},{"AttributeName":%q,"KeyType":"RANGE"}]}`,
			table, keys[0], keys[1], keys[0], keys[1]))
	}
	dynamoDB(t, "PutItem", fmt.Sprintf(`{"TableName":%q,"Item":{"store_id":{"S":"FORMAT"},"sk":{"S":"FORMAT"},"format":{"N":"99"}}}`, made.newer))
	dynamoDB(t, "PutItem", fmt.Sprintf(`{"TableName":%q,"Item":{"store_id":{"S":"FORMAT"},"sk":{"S":"FORMAT"},"format":{"N":"1"},"bucket":{"S":%q}}}`, made.older, bucket))
	return made
}

// dynamoDB makes one request of the shared server, as no client would.
func dynamoDB(t *testing.T, operation, body string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, awstest.DynamoDB(t), strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Amz-Target", "DynamoDB_20120810."+operation)
	req.Header.Set("Content-Type", "application/x-amz-json-1.0")
	req.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/dynamodb/aws4_request, SignedHeaders=host, Signature=0")
	req.Header.Set("X-Amz-Date", "20260101T000000Z")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %v %s %s", operation, err, resp.Status, text)
	}
	return string(text)
}
