package awssetup

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/middleware"

	"mneme/internal/awsconf"
)

// Probed is one thing that Probe has tried.
type Probed struct {
	What string
	// Err says what is wrong; nil: nothing. It is an awsconf.ErrNotAllowed, under errors.Is,
	// where that could not be tried, since the caller may not.
	Err  error
	Note string // what was seen, such as a latency
}

// The object and row that Probe writes and removes again. No store has such an id.
const (
	probeKey = "stores/probe/put-if-absent"
	probeID  = "probe"
)

// maxSkew is how far the clock may be from that of S3, which refuses requests of more than
// 15 minutes.
const maxSkew = 30 * time.Second

// latencyTries is of how many requests the middle one is told.
const latencyTries = 5

// Probe tries what mneme needs of a bucket and a table: that each writes only where nothing is,
// when it is asked to, that the clock fits, and how long a read takes. It reports each when it is done. Objects
// and rows of its own it removes again where the caller may.
func Probe(ctx context.Context, clients *awsconf.Clients, bucket, table string, report func(Probed)) {
	p := prober{clients: clients, bucket: bucket, table: table, report: report}
	p.s3(ctx)
	p.dynamoDB(ctx)
}

type prober struct {
	clients       *awsconf.Clients
	bucket, table string
	report        func(Probed)
	server        time.Time // as S3 has it
	here          time.Time // when that came
}

// errNotConditional says that a server writes over what is there though it is told not to.
var errNotConditional = errors.New("the server writes over what is there though it is asked not to, so that two writers lose each other's commits; use one that honours conditional writes")

func (p *prober) s3(ctx context.Context) {
	const what = "S3 conditional writes"
	put := func() error {
		out, err := p.clients.S3.PutObject(ctx, &s3.PutObjectInput{
			Bucket: &p.bucket, Key: aws.String(probeKey), Body: strings.NewReader("probe"), IfNoneMatch: aws.String("*"),
		})
		if out != nil {
			p.heard(out.ResultMetadata)
		}
		return err
	}
	err := tryTwice(put, "PreconditionFailed")
	p.report(Probed{What: what, Err: err})
	defer func() {
		_, _ = p.clients.S3.DeleteObject(context.WithoutCancel(ctx), &s3.DeleteObjectInput{Bucket: &p.bucket, Key: aws.String(probeKey)})
	}()
	p.latency(ctx, "S3 reads", func(ctx context.Context) error {
		out, err := p.clients.S3.GetObject(ctx, &s3.GetObjectInput{Bucket: &p.bucket, Key: aws.String(probeKey)})
		if err == nil {
			p.heard(out.ResultMetadata)
			return out.Body.Close()
		}
		if codeOf(err) == "NoSuchKey" { // it may not write, and has read that there is nothing
			return nil
		}
		return err
	})
	if !p.server.IsZero() {
		p.clock()
	}
}

// heard notes the server's clock.
func (p *prober) heard(m middleware.Metadata) {
	if at, ok := awsmiddleware.GetServerTime(m); ok {
		p.server, p.here = at, time.Now()
	}
}

func (p *prober) clock() {
	skew := p.here.Sub(p.server)
	one := Probed{What: "clock", Note: fmt.Sprintf("within %v of S3", maxSkew)}
	if skew.Abs() > maxSkew {
		one = Probed{What: "clock", Err: fmt.Errorf("it is %v from that of S3, which refuses requests beyond 15m0s; set it, as `timedatectl set-ntp true` does", skew.Round(time.Second))}
	}
	p.report(one)
}

func (p *prober) dynamoDB(ctx context.Context) {
	key := map[string]types.AttributeValue{PartitionKey: &types.AttributeValueMemberS{Value: probeID}, SortKey: &types.AttributeValueMemberS{Value: probeID}}
	item := map[string]types.AttributeValue{TTLAttribute: &types.AttributeValueMemberN{Value: strconv.FormatInt(time.Now().Add(time.Hour).Unix(), 10)}}
	for name, value := range key {
		item[name] = value
	}
	put := func() error {
		_, err := p.clients.DynamoDB.PutItem(ctx, &dynamodb.PutItemInput{
			TableName: &p.table, Item: item, ConditionExpression: aws.String("attribute_not_exists(" + PartitionKey + ")"),
		})
		return err
	}
	p.report(Probed{What: "DynamoDB conditional writes", Err: tryTwice(put, "ConditionalCheckFailedException")})
	defer func() {
		_, _ = p.clients.DynamoDB.DeleteItem(context.WithoutCancel(ctx), &dynamodb.DeleteItemInput{TableName: &p.table, Key: key})
	}()
	p.latency(ctx, "DynamoDB reads", func(ctx context.Context) error {
		_, err := p.clients.DynamoDB.GetItem(ctx, &dynamodb.GetItemInput{TableName: &p.table, Key: key, ConsistentRead: aws.Bool(true)})
		return err
	})
}

// tryTwice writes twice on the condition that nothing exists: one of the two writes must be
// refused with a code.
func tryTwice(put func() error, refusal string) error {
	for range 2 {
		switch err := put(); {
		case codeOf(err) == refusal: // what an earlier probe, or another one, has left
			return nil
		case err != nil:
			return awsconf.Explain(err)
		}
	}
	return errNotConditional
}

// latency reports how long the middle one of a few requests takes.
func (p *prober) latency(ctx context.Context, what string, request func(context.Context) error) {
	var took []time.Duration
	for range latencyTries {
		began := time.Now()
		if err := request(ctx); err != nil {
			p.report(Probed{What: what, Err: awsconf.Explain(err)})
			return
		}
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	p.report(Probed{What: what, Note: fmt.Sprintf("p50 %v", took[len(took)/2].Round(100*time.Microsecond))})
}

// codeOf is the code of an error of a server; "" of another.
func codeOf(err error) string {
	var api smithy.APIError
	if errors.As(err, &api) {
		return api.ErrorCode()
	}
	return ""
}
