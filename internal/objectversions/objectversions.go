// Package objectversions removes what a bucket keeps of objects that were replaced or
// deleted.
package objectversions

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"mneme/internal/awsconf"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
)

// API is what it needs of S3. *s3.Client is one.
type API interface {
	DeleteObject(context.Context, *s3.DeleteObjectInput, ...func(*s3.Options)) (*s3.DeleteObjectOutput, error)
	ListObjectVersions(context.Context, *s3.ListObjectVersionsInput, ...func(*s3.Options)) (*s3.ListObjectVersionsOutput, error)
}

// ErrLeft says that old versions of objects are left, if the bucket keeps any. A later call
// finds them.
var ErrLeft = errors.New("old versions of objects in the bucket are left, if it keeps any: " +
	"the credentials need s3:ListBucketVersions for the bucket, and s3:GetObjectVersion and s3:DeleteObjectVersion for its objects; then run the same once more")

// Remove removes all versions but the newest of the objects whose keys begin with a prefix,
// and the newest, too, where it only says that the object was deleted. Of a bucket that
// keeps none it removes nothing. Errors: ErrLeft, where the server does not allow it, and
// what else the client says.
func Remove(ctx context.Context, client API, bucket, prefix string) error {
	return removeOf(ctx, client, bucket, prefix, func(string) bool { return true })
}

// RemoveOne is Remove of one object.
func RemoveOne(ctx context.Context, client API, bucket, name string) error {
	return removeOf(ctx, client, bucket, name, func(key string) bool { return key == name })
}

func removeOf(ctx context.Context, client API, bucket, prefix string, wanted func(key string) bool) error {
	var key, version *string
	var hiding []types.DeleteMarkerEntry // gone before what they hide, that would be back
	for more := true; more; {
		out, err := page(ctx, client, &s3.ListObjectVersionsInput{Bucket: &bucket, Prefix: &prefix, KeyMarker: key, VersionIdMarker: version})
		if err != nil {
			return err
		}
		for _, v := range out.Versions {
			if aws.ToBool(v.IsLatest) || !wanted(aws.ToString(v.Key)) {
				continue
			}
			if err := remove(ctx, client, bucket, v.Key, v.VersionId); err != nil {
				return err
			}
		}
		hiding = append(hiding, out.DeleteMarkers...)
		more, key, version = aws.ToBool(out.IsTruncated), out.NextKeyMarker, out.NextVersionIdMarker
	}
	for _, d := range hiding {
		if !wanted(aws.ToString(d.Key)) {
			continue
		}
		if err := remove(ctx, client, bucket, d.Key, d.VersionId); err != nil {
			return err
		}
	}
	return nil
}

// Kept returns the ids of all versions of one object that a bucket keeps, the newest first,
// which may be the object itself. Errors: those of Remove.
func Kept(ctx context.Context, client API, bucket, name string) (ids []string, err error) {
	var key, version *string
	for more := true; more; {
		out, err := page(ctx, client, &s3.ListObjectVersionsInput{Bucket: &bucket, Prefix: &name, KeyMarker: key, VersionIdMarker: version})
		if err != nil {
			return nil, err
		}
		for _, v := range out.Versions {
			if aws.ToString(v.Key) == name {
				ids = append(ids, aws.ToString(v.VersionId))
			}
		}
		more, key, version = aws.ToBool(out.IsTruncated), out.NextKeyMarker, out.NextVersionIdMarker
	}
	return ids, nil
}

func page(ctx context.Context, client API, in *s3.ListObjectVersionsInput) (*s3.ListObjectVersionsOutput, error) {
	ctx, cancel := awsconf.WithTimeout(ctx)
	defer cancel()
	out, err := client.ListObjectVersions(ctx, in)
	return out, Left(err)
}

func remove(ctx context.Context, client API, bucket string, key, version *string) error {
	ctx, cancel := awsconf.WithTimeout(ctx)
	defer cancel()
	_, err := client.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: &bucket, Key: key, VersionId: version})
	return Left(err)
}

// Left makes an ErrLeft of the answer of a server that does not allow it, or cannot.
func Left(err error) error {
	if err = awsconf.Explain(err); errors.Is(err, fs.ErrPermission) || errors.Is(err, errors.ErrUnsupported) {
		return fmt.Errorf("%w: %w", ErrLeft, err)
	}
	return err
}
