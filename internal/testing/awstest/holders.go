package awstest

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/s3"
)

// Holders returns the rows of a table, and the objects of a bucket in all their versions,
// that have a text in them or in their keys.
func Holders(t testing.TB, bucket, table, what string) (places []string) {
	t.Helper()
	look := func(place string, data []byte) {
		if strings.Contains(place, what) || bytes.Contains(data, []byte(what)) {
			places = append(places, place)
		}
	}
	clients := Clients(t, nil)
	for rows := dynamodb.NewScanPaginator(clients.DynamoDB, &dynamodb.ScanInput{TableName: &table}); rows.HasMorePages(); {
		page, err := rows.NextPage(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range page.Items {
			for name, value := range row {
				text := fmt.Sprint(value)
				switch v := value.(type) {
				case *types.AttributeValueMemberS:
					text = v.Value
				case *types.AttributeValueMemberB:
					text = string(v.Value)
				}
				look(fmt.Sprint("row ", row["sk"].(*types.AttributeValueMemberS).Value, " ", name), []byte(text))
			}
		}
	}
	for objects := s3.NewListObjectVersionsPaginator(clients.S3, &s3.ListObjectVersionsInput{Bucket: &bucket}); objects.HasMorePages(); {
		page, err := objects.NextPage(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range page.Versions {
			out, err := clients.S3.GetObject(t.Context(), &s3.GetObjectInput{Bucket: &bucket, Key: o.Key, VersionId: o.VersionId})
			if err != nil {
				t.Fatal(err)
			}
			data, err := io.ReadAll(out.Body)
			out.Body.Close()
			if err != nil {
				t.Fatal(err)
			}
			look("object "+*o.Key+" version "+*o.VersionId, data)
		}
	}
	return places
}
