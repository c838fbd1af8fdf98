package dynamolog

import (
	"context"
	"errors"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// errOwedAgain says that the store has changed since its description was written.
var errOwedAgain = errors.New("the store was changed while it was described")

// describe writes the description of the store, and removes the OUT row that says that one
// is owed, unless the row is of a later event: the process that made that event may die
// before it pays.
func (s *store) describe(ctx context.Context) error {
	owed, err := s.log.table.get(ctx, s.id, descriptionSort, false)
	if err != nil {
		return err
	}
	if err := s.log.putDescription(ctx, s.id); err != nil || owed == nil {
		return err
	}
	same := &types.Delete{TableName: &s.log.table.name, Key: key(s.id, descriptionSort)}
	if seq := owed["seq"]; seq != nil {
		same.ConditionExpression = aws.String("attribute_not_exists(sk) OR #seq = :seq")
		same.ExpressionAttributeNames, same.ExpressionAttributeValues = map[string]string{"#seq": "seq"}, item{":seq": seq}
	} else {
		same.ConditionExpression = aws.String("attribute_not_exists(seq)") // as an earlier mneme has put it
	}
	err = s.log.transact(ctx, types.TransactWriteItem{Delete: same})
	if isConditionFailed(err) {
		return errOwedAgain
	}
	return err
}
