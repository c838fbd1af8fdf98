package awstest_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"mneme/internal/awsconf"
	"mneme/internal/testing/awstest"
)

// childVariable makes the test program start a server, say so, and wait.
const childVariable = "MNEME_AWSTEST_CHILD"

func putObject(ctx context.Context, client *s3.Client, bucket string) error {
	_, err := client.PutObject(ctx, &s3.PutObjectInput{
		Bucket: &bucket, Key: aws.String("dir/key"), Body: strings.NewReader("data"), IfNoneMatch: aws.String("*"),
	})
	return err
}

func TestS3(t *testing.T) {
	bucket := awstest.Bucket(t)
	client := awstest.Clients(t, nil).S3
	if err := putObject(t.Context(), client, bucket); err != nil {
		t.Fatal(err)
	}
	if err := putObject(t.Context(), client, bucket); err == nil || !strings.Contains(err.Error(), "PreconditionFailed") {
		t.Errorf("the second conditional put: %v", err)
	}
}

func TestTables(t *testing.T) {
	for name, endpoint := range map[string]func(testing.TB) string{"dynoxide": awstest.DynamoDB, "DynamoDB Local": awstest.DynamoDBLocal} {
		t.Run(name, func(t *testing.T) {
			client := awstest.ClientsFor(t, nil, "", endpoint(t)).DynamoDB
			awstest.MakeTable(t, client, "mneme")
			item := map[string]types.AttributeValue{
				"store_id": &types.AttributeValueMemberS{Value: "a"}, "sk": &types.AttributeValueMemberS{Value: "b"},
			}
			_, err := client.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: aws.String("mneme"), Item: item})
			if err != nil {
				t.Fatal(err)
			}
			out, err := client.GetItem(t.Context(), &dynamodb.GetItemInput{TableName: aws.String("mneme"), Key: item})
			if err != nil || len(out.Item) != 2 {
				t.Errorf("%v, %v", out, err)
			}
		})
	}
}

// TestOutage stops servers and starts them again: what was stored is still
// there, at the same endpoint.
func TestOutage(t *testing.T) {
	object, table := awstest.NewS3(t), awstest.NewDynamoDB(t)
	clients := awstest.ClientsFor(t, nil, object.Endpoint, table.Endpoint)
	awstest.MakeBucket(t, clients.S3, "bucket")
	awstest.MakeTable(t, clients.DynamoDB, "mneme")
	if err := putObject(t.Context(), clients.S3, "bucket"); err != nil {
		t.Fatal(err)
	}
	object.Stop()
	table.Stop()
	ctx, cancel := awsconf.WithTimeout(t.Context())
	defer cancel()
	if err := putObject(ctx, clients.S3, "bucket"); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("put without a server: %v", err)
	}
	object.Start(t)
	table.Start(t)
	_, err := clients.S3.HeadObject(t.Context(), &s3.HeadObjectInput{Bucket: aws.String("bucket"), Key: aws.String("dir/key")})
	if err != nil {
		t.Error(err)
	}
	_, err = clients.DynamoDB.DescribeTable(t.Context(), &dynamodb.DescribeTableInput{TableName: aws.String("mneme")})
	if err != nil {
		t.Error(err)
	}
}

// TestServersEndWithTheProcess kills a test process and sees its servers and
// their data gone.
func TestServersEndWithTheProcess(t *testing.T) {
	if os.Getenv(childVariable) == "1" {
		awstest.S3(t)
		awstest.DynamoDB(t)
		_, _ = os.Stdout.WriteString("ready\n")
		time.Sleep(time.Hour)
	}
	awstest.S3(t) // skips where it is missing
	tmp := t.TempDir()
	child := exec.Command(os.Args[0], "-test.run=^TestServersEndWithTheProcess$", "-test.v")
	child.Env = append(os.Environ(), childVariable+"=1", "TMPDIR="+tmp)
	output, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	for buffer := make([]byte, 1<<10); !strings.Contains(said.String(), "ready\n"); {
		n, err := output.Read(buffer)
		said.Write(buffer[:n])
		if err != nil {
			t.Fatalf("the child ended: %v\n%s", err, &said)
		}
	}
	if found := below(t, tmp); len(found) < 2 {
		t.Errorf("two servers have the directories %v", found)
	}
	_ = child.Process.Kill()
	_ = child.Wait()
	for deadline := time.Now().Add(20 * time.Second); len(below(t, tmp)) > 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("still there: %v", below(t, tmp))
		}
	}
}

func below(t *testing.T, dir string) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, "mneme-*"))
	if err != nil {
		t.Fatal(err)
	}
	return found
}
