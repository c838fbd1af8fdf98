package dynamolog

import (
	"context"
	"fmt"
	"testing"
	"time"

	"mneme/internal/awstest"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
)

// deadlines is a database that notes until when each batch may be written.
type deadlines struct {
	database
	seen map[time.Time]bool
}

func (d *deadlines) BatchWriteItem(ctx context.Context, in *dynamodb.BatchWriteItemInput, opts ...func(*dynamodb.Options)) (*dynamodb.BatchWriteItemOutput, error) {
	at, _ := ctx.Deadline()
	d.seen[at] = true
	return d.database.BatchWriteItem(ctx, in, opts...)
}

// TestDeleteHasTheTimeItNeeds holds that the deletion of a store is bounded
// request by request, not as a whole: what a large store leaves when its
// deletion ends in the middle can be found by nobody.
func TestDeleteHasTheTimeItNeeds(t *testing.T) {
	b := newBackend(t, awstest.DynamoDB(t))
	l := b.open(t, nil, nil)
	s := addStore(t, l, "large")
	for i := range 2 * maxBatchWrite / 4 {
		write(t, l, s.ID, fmt.Sprintf("/file-%d", i), "text")
	}
	l.work.Wait() // nothing else writes batches
	d := &deadlines{database: l.table.db, seen: map[time.Time]bool{}}
	l.table.db = d
	if err := l.DeleteStore(t.Context(), s.ID); err != nil {
		t.Fatal(err)
	}
	if len(d.seen) < 2 || d.seen[time.Time{}] {
		t.Errorf("the batches had the deadlines %v, want one each", d.seen)
	}
}
