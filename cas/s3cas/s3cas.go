// Package s3cas keeps blobs as objects of an S3 bucket:
// <prefix>/blobs/<first two hex digits>/<sha256 in hex>. Any number of processes
// on any number of machines may use one bucket at once; they need no lock,
// because a blob appears whole and never changes.
package s3cas

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"iter"
	"path"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go"

	"mneme/cas"
	"mneme/internal/awsconf"
	"mneme/internal/objectversions"
)

var (
	_ cas.Store   = (*Store)(nil)
	_ cas.Lister  = (*Store)(nil)
	_ cas.Deleter = (*Store)(nil)
)

// api is what a Store uses of S3.
type api interface {
	GetObject(context.Context, *s3.GetObjectInput, ...func(*s3.Options)) (*s3.GetObjectOutput, error)
	PutObject(context.Context, *s3.PutObjectInput, ...func(*s3.Options)) (*s3.PutObjectOutput, error)
	DeleteObject(context.Context, *s3.DeleteObjectInput, ...func(*s3.Options)) (*s3.DeleteObjectOutput, error)
	ListObjectsV2(context.Context, *s3.ListObjectsV2Input, ...func(*s3.Options)) (*s3.ListObjectsV2Output, error)
	ListObjectVersions(context.Context, *s3.ListObjectVersionsInput, ...func(*s3.Options)) (*s3.ListObjectVersionsOutput, error)
}

// Store is a cas.Store in a bucket. Every call has 12 s, repetitions and the transfer of
// the blob included; each page of a List has 12 s again. It holds nothing open, so there is
// nothing to close.
type Store struct {
	client api
	bucket string
	blobs  string // what all keys begin with, with a slash at the end
}

// Open returns the store of the blobs below prefix, which is stores/<store id>.
// The client repeats what its transport calls for (see awsconf.Load). Nothing is
// sent: a bucket that is missing is noticed by the first call.
func Open(client *s3.Client, bucket, prefix string) *Store {
	return &Store{client: client, bucket: bucket, blobs: prefix + "/blobs/"}
}

func (s *Store) key(d cas.Digest) *string {
	name := d.String()
	return aws.String(s.blobs + name[:2] + "/" + name)
}

// Put implements cas.Store. A new blob costs one PUT, which the server verifies
// against the SHA-256; one that is there already costs a GET besides, and
// another PUT where the stored bytes turn out to be damaged. Only that one
// replaces an object, which credentials of a mount may not do: then the error is
// an fs.ErrPermission.
func (s *Store) Put(ctx context.Context, data []byte) (cas.Digest, error) {
	d := cas.Sum(data)
	if err := s.put(ctx, d, data); err != nil {
		return cas.Digest{}, fmt.Errorf("put %v: %w", d, awsconf.Explain(err))
	}
	return d, nil
}

func (s *Store) put(ctx context.Context, d cas.Digest, data []byte) error {
	ctx, cancel, err := begin(ctx)
	if err != nil {
		return err
	}
	defer cancel()
	for {
		err := s.upload(ctx, d, data, aws.String("*"))
		if !lostToAnother(err) {
			return err
		}
		// It was put before, perhaps by this call, whose first reply was lost.
		_, err = s.read(ctx, d)
		switch {
		case errors.Is(err, cas.ErrNotFound): // and was deleted since
		case errors.Is(err, cas.ErrCorrupt):
			if err := awsconf.Explain(s.upload(ctx, d, data, nil)); err != nil {
				return fmt.Errorf("replace the stored bytes, which are damaged: %w", err)
			}
			return nil
		default:
			return err
		}
	}
}

// upload puts the bytes; with ifNoneMatch "*" only where nothing is.
func (s *Store) upload(ctx context.Context, d cas.Digest, data []byte, ifNoneMatch *string) error {
	_, err := s.client.PutObject(ctx, &s3.PutObjectInput{
		Bucket: &s.bucket, Key: s.key(d), Body: bytes.NewReader(data), ContentLength: aws.Int64(int64(len(data))),
		IfNoneMatch: ifNoneMatch, ChecksumSHA256: aws.String(base64.StdEncoding.EncodeToString(d[:])),
	})
	return err
}

// lostToAnother reports whether a conditional put found an object, or others
// that went on putting it.
func lostToAnother(err error) bool {
	code := errorCode(err)
	return code == "PreconditionFailed" || code == "ConditionalRequestConflict"
}

// Get implements cas.Store. It costs one GET, and one more where the bytes came
// damaged or incomplete: only what comes damaged twice is cas.ErrCorrupt.
func (s *Store) Get(ctx context.Context, d cas.Digest) ([]byte, error) {
	data, err := s.get(ctx, d)
	if errorCode(err) == "AccessDenied" {
		return nil, fmt.Errorf("get %v: %w; or the blob is missing, which S3 calls denied where credentials may not list the whole bucket", d, awsconf.Explain(err))
	}
	if err != nil {
		return nil, fmt.Errorf("get %v: %w", d, awsconf.Explain(err))
	}
	return data, nil
}

func (s *Store) get(ctx context.Context, d cas.Digest) ([]byte, error) {
	ctx, cancel, err := begin(ctx)
	if err != nil {
		return nil, err
	}
	defer cancel()
	return s.read(ctx, d)
}

// read is get without a time limit of its own.
func (s *Store) read(ctx context.Context, d cas.Digest) ([]byte, error) {
	data, again, err := s.readOnce(ctx, d)
	if again && ctx.Err() == nil {
		data, _, err = s.readOnce(ctx, d)
	}
	return data, err
}

// readOnce also reports whether reading again may help.
func (s *Store) readOnce(ctx context.Context, d cas.Digest) (data []byte, again bool, err error) {
	out, err := s.client.GetObject(ctx, &s3.GetObjectInput{Bucket: &s.bucket, Key: s.key(d)})
	if err != nil {
		return nil, false, notFound(err)
	}
	defer out.Body.Close()
	if data, err = readAll(out.Body, aws.ToInt64(out.ContentLength)); err != nil {
		return nil, true, fmt.Errorf("the transfer broke off: %w", err)
	}
	if cas.Sum(data) != d {
		return nil, true, cas.ErrCorrupt
	}
	return data, false, nil
}

// readAll is io.ReadAll into a buffer of the announced length.
func readAll(body io.Reader, announced int64) ([]byte, error) {
	const mostAtOnce = 64 << 20 // whatever a server announces
	var buffer bytes.Buffer
	buffer.Grow(int(min(max(announced, 0), mostAtOnce)) + bytes.MinRead)
	_, err := buffer.ReadFrom(body)
	return buffer.Bytes(), err
}

// Has implements cas.Store. It asks for one byte: the answer to a HEAD could not
// tell a missing object from a missing bucket.
func (s *Store) Has(ctx context.Context, d cas.Digest) (bool, error) {
	has, err := s.has(ctx, d)
	if err != nil {
		return false, fmt.Errorf("has %v: %w", d, awsconf.Explain(err))
	}
	return has, nil
}

func (s *Store) has(ctx context.Context, d cas.Digest) (bool, error) {
	ctx, cancel, err := begin(ctx)
	if err != nil {
		return false, err
	}
	defer cancel()
	out, err := s.client.GetObject(ctx, &s3.GetObjectInput{Bucket: &s.bucket, Key: s.key(d), Range: aws.String("bytes=0-0")})
	switch err = notFound(err); {
	case err == nil:
		return true, out.Body.Close()
	case errors.Is(err, cas.ErrNotFound):
		return false, nil
	case errorCode(err) == "InvalidRange": // an empty object has no first byte
		return true, nil
	}
	return false, err
}

// List implements cas.Lister, with one LIST for every 1,000 blobs. Objects that
// are not named like a blob are passed over.
func (s *Store) List(ctx context.Context) iter.Seq2[cas.Digest, error] {
	return func(yield func(cas.Digest, error) bool) {
		for one, err := range s.list(ctx, false) {
			if !yield(one.Digest, err) {
				return
			}
		}
	}
}

// Stored is List with sizes and ages, which are by the clock of S3.
func (s *Store) Stored(ctx context.Context) iter.Seq2[cas.Stored, error] { return s.list(ctx, true) }

func (s *Store) list(ctx context.Context, aged bool) iter.Seq2[cas.Stored, error] {
	return func(yield func(cas.Stored, error) bool) {
		var next *string
		for {
			page, err := s.page(ctx, next)
			if err != nil {
				yield(cas.Stored{}, fmt.Errorf("list %s in bucket %s: %w", s.blobs, s.bucket, awsconf.Explain(err)))
				return
			}
			now, told := awsmiddleware.GetServerTime(page.ResultMetadata)
			if aged && !told {
				yield(cas.Stored{}, fmt.Errorf("list %s in bucket %s: the server does not tell the time (its answers have no Date)", s.blobs, s.bucket))
				return
			}
			for _, object := range page.Contents {
				d, err := cas.ParseDigest(path.Base(aws.ToString(object.Key)))
				if err != nil || *s.key(d) != *object.Key {
					continue
				}
				if err := ctx.Err(); err != nil {
					yield(cas.Stored{}, fmt.Errorf("list: %w", err))
					return
				}
				one := cas.Stored{Digest: d, Size: aws.ToInt64(object.Size)}
				if object.LastModified != nil { // else it counts as new
					one.Age = now.Sub(*object.LastModified)
				}
				if !yield(one, nil) {
					return
				}
			}
			if next = page.NextContinuationToken; next == nil || !aws.ToBool(page.IsTruncated) {
				return
			}
		}
	}
}

func (s *Store) page(ctx context.Context, token *string) (*s3.ListObjectsV2Output, error) {
	ctx, cancel, err := begin(ctx)
	if err != nil {
		return nil, err
	}
	defer cancel()
	return s.client.ListObjectsV2(ctx, &s3.ListObjectsV2Input{Bucket: &s.bucket, Prefix: &s.blobs, ContinuationToken: token})
}

// Reach makes sure that the bucket is there and can be asked, with one LIST of
// one key.
func (s *Store) Reach(ctx context.Context) error {
	ctx, cancel, err := begin(ctx)
	if err != nil {
		return err
	}
	defer cancel()
	_, err = s.client.ListObjectsV2(ctx, &s3.ListObjectsV2Input{Bucket: &s.bucket, Prefix: &s.blobs, MaxKeys: aws.Int32(1)})
	if err != nil {
		return fmt.Errorf("bucket %s: %w", s.bucket, awsconf.Explain(err))
	}
	return nil
}

// Delete implements cas.Deleter, with one DELETE. In a bucket that keeps
// versions of objects the bytes stay, as a noncurrent version: see DeleteOld.
func (s *Store) Delete(ctx context.Context, d cas.Digest) error {
	if err := s.delete(ctx, d); err != nil {
		return fmt.Errorf("delete %v: %w", d, awsconf.Explain(err))
	}
	return nil
}

func (s *Store) delete(ctx context.Context, d cas.Digest) error {
	ctx, cancel, err := begin(ctx)
	if err != nil {
		return err
	}
	defer cancel()
	_, err = s.client.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: &s.bucket, Key: s.key(d)})
	if err = notFound(err); errors.Is(err, cas.ErrNotFound) { // S3 itself says nothing, others do
		return nil
	}
	return err
}

// DeleteOld removes what a bucket that keeps versions of objects has kept of a blob that
// was deleted. Where it may not, the error is an objectversions.ErrLeft.
func (s *Store) DeleteOld(ctx context.Context, d cas.Digest) error {
	if err := objectversions.RemoveOne(ctx, s.client, s.bucket, *s.key(d)); err != nil {
		return fmt.Errorf("delete old versions of %v: %w", d, err)
	}
	return nil
}

// begin bounds a call in time. A context that has ended sends nothing.
func begin(ctx context.Context) (context.Context, context.CancelFunc, error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	ctx, cancel := awsconf.WithTimeout(ctx)
	return ctx, cancel, nil
}

// notFound turns S3's word for a missing object into the contract's. A missing
// bucket stays an error of its own.
func notFound(err error) error {
	if errorCode(err) == "NoSuchKey" {
		return cas.ErrNotFound
	}
	return err
}

// errorCode returns what S3 calls an error, or "" where it did not answer.
func errorCode(err error) string {
	var api smithy.APIError
	if errors.As(err, &api) {
		return api.ErrorCode()
	}
	return ""
}
