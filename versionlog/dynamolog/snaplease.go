package dynamolog

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	"mneme/errkind"
	"mneme/internal/awsconf"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// A snapshot that a process was making when versions were erased has these versions, and
// could reach the bucket after a purge that has removed all snapshots. So snapshots are made
// and removed by one process at a time, which has the SNAP row: it sends nothing later than
// leaseWorks after it read the clock of the servers, and others take over the row of a dead
// process after leaseFor by that clock. S3 refuses requests that are signed for a time more
// than 15 minutes away.
const (
	leaseWorks = 25 * time.Minute
	leaseFor   = time.Hour
)

// errLeased says that another process makes or removes snapshots.
var errLeased = errkind.New(errkind.Unavailable, "another process makes a snapshot, or was killed while it did")

// leaseSnapshots takes the SNAP row. The context that it returns ends when nothing may be sent
// any more; release gives the row back. errLeased.
func (s *store) leaseSnapshots(ctx context.Context) (bounded context.Context, release func(), err error) {
	token, permit := rand.Text(), permitFor(s.log.now, leaseWorks)
	now, err := s.log.serverTime(ctx)
	if err != nil {
		return nil, nil, err
	}
	i := key(s.id, snapSort)
	i["token"], i["until"] = text(token), microsOf(now.Add(leaseFor))
	take := put(s.log.table.name, i)
	take.Put.ConditionExpression = aws.String("attribute_not_exists(sk) OR #until < :now OR #until > :most")
	take.Put.ExpressionAttributeNames, take.Put.ExpressionAttributeValues = map[string]string{"#until": "until"}, item{
		":now": microsOf(now), ":most": microsOf(now.Add(leaseFor + clockSkew)), // one further ahead was put by hand
	}
	if err := s.log.transact(ctx, take); err != nil {
		there, lookErr := s.log.table.get(ctx, s.id, snapSort, false)
		r := row{item: there}
		switch {
		case lookErr != nil:
			return nil, nil, err
		case r.text("token") == token: // the reply was lost
		case isConditionFailed(err):
			return nil, nil, fmt.Errorf("%w: until %s at most", errLeased, r.time("until").Format(time.RFC3339))
		default:
			return nil, nil, err
		}
	}
	bounded, cancel := context.WithTimeout(awsconf.Permit(ctx, permit), leaseWorks)
	return bounded, func() {
		cancel()
		err := s.log.transact(context.WithoutCancel(ctx), types.TransactWriteItem{Delete: &types.Delete{
			TableName: &s.log.table.name, Key: key(s.id, snapSort), ConditionExpression: aws.String("#token = :token"),
			ExpressionAttributeNames: map[string]string{"#token": "token"}, ExpressionAttributeValues: item{":token": text(token)},
		}})
		if err != nil && !isConditionFailed(err) {
			s.log.logger.Info("the row of a snapshot stays for a while", "store", s.id, "op", "fold", "err", err)
		}
	}, nil
}
