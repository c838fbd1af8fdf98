package awstest_test

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/s3"

	"mneme/internal/testing/awstest"
)

// TestScript runs `make aws-up` and `make aws-down` as a person does, in a
// project of their own.
func TestScript(t *testing.T) {
	awstest.S3(t) // skips where the servers are missing
	project := t.TempDir()
	for _, name := range []string{"aws.sh", "install-test-servers.sh"} {
		script, err := os.ReadFile(filepath.Join("..", "..", "..", "scripts", name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(filepath.Join(project, "scripts"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(project, "scripts", name), script, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	s3Port, dynamoPort := awstest.FreePort(t), awstest.FreePort(t)
	run := func(what string) (stdout string, err error) {
		cmd := exec.Command(filepath.Join(project, "scripts", "aws.sh"), what)
		cmd.Env = append(os.Environ(), "MNEME_AWS_S3_PORT="+s3Port, "MNEME_AWS_DYNAMODB_PORT="+dynamoPort)
		var stderr strings.Builder
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		t.Logf("%s said: %s", what, &stderr)
		return string(out), err
	}
	t.Cleanup(func() { _, _ = run("down") })
	up := func() *s3.Client {
		stdout, err := run("up")
		if err != nil {
			t.Fatal(err)
		}
		if want := "export AWS_ENDPOINT_URL_S3=http://127.0.0.1:" + s3Port; !strings.Contains(stdout, want) {
			t.Errorf("it said %q, want %q in it", stdout, want)
		}
		return awstest.ClientsFor(t, nil, "http://127.0.0.1:"+s3Port, "http://127.0.0.1:"+dynamoPort).S3
	}
	client := up()
	awstest.MakeBucket(t, client, "kept")
	up() // once more is fine
	if _, err := run("down"); err != nil {
		t.Error(err)
	}
	blocker, err := net.Listen("tcp", "127.0.0.1:"+s3Port) // free again
	if err != nil {
		t.Fatal(err)
	}
	if _, err := run("up"); err == nil {
		t.Error("up succeeded, though something else listens on the port")
	}
	blocker.Close()
	client = up()
	if err := putObject(t.Context(), client, "kept"); err != nil {
		t.Errorf("the data did not stay: %v", err)
	}
}
