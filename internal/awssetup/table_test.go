package awssetup

import (
	"errors"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// TestForeignSchema holds that a table with other keys is refused with a
// message that names those that are wrong.
func TestForeignSchema(t *testing.T) {
	const text, number = types.ScalarAttributeTypeS, types.ScalarAttributeTypeN
	for _, test := range []struct {
		name                string
		hash, sort          string
		hashType, sortTypes types.ScalarAttributeType
		want                string // "" for mneme's own
	}{
		{"mneme's own", PartitionKey, SortKey, text, text, ""},
		{"other names", "pk", "range", text, text, `"pk" and "range"`},
		{"a number to sort by", PartitionKey, SortKey, text, number, `"store_id" and "sk of type N"`},
		{"a number as partition", PartitionKey, SortKey, number, text, `"store_id of type N" and "sk"`},
	} {
		t.Run(test.name, func(t *testing.T) {
			err := (&setup{table: "t"}).checkSchema(&types.TableDescription{
				KeySchema: []types.KeySchemaElement{
					{AttributeName: aws.String(test.hash), KeyType: types.KeyTypeHash},
					{AttributeName: aws.String(test.sort), KeyType: types.KeyTypeRange},
				},
				AttributeDefinitions: []types.AttributeDefinition{
					{AttributeName: aws.String(test.hash), AttributeType: test.hashType},
					{AttributeName: aws.String(test.sort), AttributeType: test.sortTypes},
				},
			})
			if test.want == "" {
				if err != nil {
					t.Errorf("error %v, want none", err)
				}
				return
			}
			if !errors.Is(err, ErrForeignTable) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want ErrForeignTable with %s", err, test.want)
			}
		})
	}
}
