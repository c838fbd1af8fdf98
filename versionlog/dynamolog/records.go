package dynamolog

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"slices"
	"time"

	"mneme/internal/awsconf"
	"mneme/internal/objectversions"
	"mneme/versionlog"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go"
)

// records are the commit records in the bucket.
type records struct {
	s3     objects
	bucket string
}

// descriptionFormat is the format of descriptions that this mneme writes, and the
// newest it reads.
const descriptionFormat = 1

// storesRoot is what the keys of all stores begin with.
const storesRoot = "stores/"

func storePrefix(storeID string) string { return storesRoot + storeID + "/" }
func recordPrefix(storeID string) string {
	return storePrefix(storeID) + "log/"
}
func recordKey(storeID string, of span) string { return recordPrefix(storeID) + of.name() }
func descriptionKey(storeID string) string     { return storePrefix(storeID) + "store.json" }

// upload puts an object; with ifNoneMatch "*" only where none is.
func (r records) upload(ctx context.Context, name string, data []byte, ifNoneMatch *string) error {
	return r.putIf(ctx, name, data, &s3.PutObjectInput{IfNoneMatch: ifNoneMatch})
}

// uploadOver replaces an object that still is what it was when it had that tag.
func (r records) uploadOver(ctx context.Context, name string, data []byte, tag *string) error {
	return r.putIf(ctx, name, data, &s3.PutObjectInput{IfMatch: tag})
}

// putIf puts an object on the condition that a request has.
func (r records) putIf(ctx context.Context, name string, data []byte, request *s3.PutObjectInput) error {
	sum := sha256.Sum256(data)
	request.Bucket, request.Key, request.Body = &r.bucket, &name, bytes.NewReader(data)
	request.ContentType, request.ChecksumSHA256 = aws.String("application/json"), aws.String(base64.StdEncoding.EncodeToString(sum[:]))
	_, err := r.s3.PutObject(ctx, request)
	return err
}

// getTagged is get that also returns the tag of the object.
func (r records) getTagged(ctx context.Context, name string) (data []byte, tag *string, err error) {
	out, err := r.s3.GetObject(ctx, &s3.GetObjectInput{Bucket: &r.bucket, Key: &name})
	if err != nil {
		return nil, nil, err
	}
	defer out.Body.Close()
	data, err = io.ReadAll(out.Body)
	return data, out.ETag, err
}

// replace makes an object have those bytes. One that has them is left alone.
func (r records) replace(ctx context.Context, name string, data []byte) error {
	err := r.upload(ctx, name, data, aws.String("*"))
	if codeOf(err) != "PreconditionFailed" {
		return err
	}
	there, err := r.get(ctx, name)
	if err == nil && bytes.Equal(there, data) {
		return nil
	}
	if err != nil && !errors.Is(err, versionlog.ErrNotFound) {
		return err
	}
	return r.upload(ctx, name, data, nil)
}

// errOtherRecord says that the bucket has another record in the place of one.
var errOtherRecord = errors.New("the object is of another history, or is no record")

// kept returns what a bucket that keeps versions of objects has of one, in all its versions.
// objectversions.ErrLeft where that cannot be told.
func (r records) kept(ctx context.Context, name string) (all [][]byte, err error) {
	ids, err := objectversions.Kept(ctx, r.s3, r.bucket, name)
	if err != nil || len(ids) < 2 {
		return nil, err
	}
	for _, id := range ids {
		out, err := r.s3.GetObject(ctx, &s3.GetObjectInput{Bucket: &r.bucket, Key: &name, VersionId: &id})
		if err != nil {
			return nil, objectversions.Left(err)
		}
		data, err := io.ReadAll(out.Body)
		if err = errors.Join(err, out.Body.Close()); err != nil {
			return nil, err
		}
		all = append(all, data)
	}
	return all, nil
}

// put adds the records of a transaction. Existing records must be of the same commits:
// errOtherRecord.
func (r records) put(ctx context.Context, storeID string, of span, record []byte) error {
	name := recordKey(storeID, of)
	err := r.upload(ctx, name, record, aws.String("*"))
	if codeOf(err) != "PreconditionFailed" {
		return err
	}
	there, err := r.get(ctx, name)
	if err == nil && !isSameHistory(storeID, of, there, record) {
		err = fmt.Errorf("%w: object %s has not the records of the commits in the table: %w", versionlog.ErrCorrupt, name, errOtherRecord)
	}
	return err
}

// isSameHistory reports whether records are of the same commits, some of whose versions may
// have been erased since.
func isSameHistory(storeID string, of span, there, records []byte) bool {
	if bytes.Equal(there, records) {
		return true
	}
	a, b := copyOf("", of, storeID, there), copyOf("", of, storeID, records)
	return a.err == nil && b.err == nil && slices.EqualFunc(a.commits, b.commits, func(a, b commitSum) bool { return a.digest == b.digest })
}

// get returns an object, which it asks for again where the transfer breaks off:
// the client does so only until the body begins. ErrNotFound when there is none.
func (r records) get(ctx context.Context, name string) ([]byte, error) {
	return r.getUpTo(ctx, name, math.MaxInt64)
}

// getUpTo is get of no more than limit bytes.
func (r records) getUpTo(ctx context.Context, name string, limit int64) ([]byte, error) {
	data, brokeOff, err := r.getOnce(ctx, name, limit)
	if brokeOff && ctx.Err() == nil {
		data, _, err = r.getOnce(ctx, name, limit)
	}
	return data, err
}

func (r records) getOnce(ctx context.Context, name string, limit int64) (data []byte, brokeOff bool, err error) {
	out, err := r.s3.GetObject(ctx, &s3.GetObjectInput{Bucket: &r.bucket, Key: &name})
	if codeOf(err) == "NoSuchKey" {
		return nil, false, fmt.Errorf("object %s: %w", name, versionlog.ErrNotFound)
	}
	if err != nil {
		return nil, false, err
	}
	defer out.Body.Close()
	data, err = io.ReadAll(io.LimitReader(out.Body, limit))
	return data, err != nil, err
}

func codeOf(err error) string {
	var api smithy.APIError
	if errors.As(err, &api) {
		return api.ErrorCode()
	}
	return ""
}

// list yields the names of the objects that begin with a prefix, in order.
func (r records) list(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return r.listAfter(ctx, prefix, "")
}

// listAfter is list from behind a name, "" for all.
func (r records) listAfter(ctx context.Context, prefix, after string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for o, err := range r.listed(ctx, prefix, after) {
			if !yield(o.name, err) {
				return
			}
		}
	}
}

// listed is an object as a listing tells of it.
type listed struct {
	name string
	age  time.Duration // by the clock of the bucket; 0 where that is not told
}

// listed is listAfter with ages.
func (r records) listed(ctx context.Context, prefix, after string) iter.Seq2[listed, error] {
	return func(yield func(listed, error) bool) {
		var start, next *string
		if after != "" {
			start = &after
		}
		for {
			bounded, cancel := awsconf.WithTimeout(ctx)
			out, err := r.s3.ListObjectsV2(bounded, &s3.ListObjectsV2Input{Bucket: &r.bucket, Prefix: &prefix, StartAfter: start, ContinuationToken: next})
			cancel()
			if err != nil {
				yield(listed{}, err)
				return
			}
			now, told := awsmiddleware.GetServerTime(out.ResultMetadata)
			for _, o := range out.Contents {
				one := listed{name: aws.ToString(o.Key)}
				if told && o.LastModified != nil {
					one.age = now.Sub(*o.LastModified)
				}
				if !yield(one, nil) {
					return
				}
			}
			if next = out.NextContinuationToken; next == nil {
				return
			}
		}
	}
}

// any reports whether the name of an object begins with a prefix.
func (r records) any(ctx context.Context, prefix string) (bool, error) {
	ctx, cancel := awsconf.WithTimeout(ctx)
	defer cancel()
	out, err := r.s3.ListObjectsV2(ctx, &s3.ListObjectsV2Input{Bucket: &r.bucket, Prefix: &prefix, MaxKeys: aws.Int32(1)})
	return err == nil && len(out.Contents) > 0, err
}

// removeAll removes all objects of a store, its blobs too, so that one command
// is enough when this is interrupted.
func (r records) removeAll(ctx context.Context, storeID string) error {
	const atOnce = 1000
	names := map[string]bool{}
	removeNamed := func() error {
		_, err := inParallel(names, func(name string, _ bool) (struct{}, error) {
			return struct{}{}, r.remove(ctx, name)
		})
		clear(names)
		return err
	}
	for name, err := range r.list(ctx, storePrefix(storeID)) {
		if err != nil {
			return err
		}
		if names[name] = true; len(names) < atOnce {
			continue
		}
		if err := removeNamed(); err != nil {
			return err
		}
	}
	return removeNamed()
}

// remove removes an object, if it is there, within a time limit.
func (r records) remove(ctx context.Context, name string) error {
	ctx, cancel := awsconf.WithTimeout(ctx)
	defer cancel()
	_, err := r.s3.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: &r.bucket, Key: &name})
	if codeOf(err) == "NoSuchKey" { // S3 itself says nothing, others do
		return nil
	}
	return err
}

// description is what store.json holds: all of META that does not follow from
// the records.
type description struct {
	Format      int        `json:"format"`
	ID          string     `json:"id"`
	Slug        string     `json:"slug"`
	Name        string     `json:"name"`
	Description string     `json:"description"`
	MaxBytes    int64      `json:"max_memory_bytes"`
	Content     string     `json:"content"`
	CreatedAt   time.Time  `json:"created_at"`
	ArchivedAt  *time.Time `json:"archived_at,omitempty"`
	Creation    string     `json:"creation"`
	QuotaBytes  int64      `json:"quota_bytes,omitempty"`
	QuotaCount  int64      `json:"quota_memories,omitempty"`
	QuotaHour   int64      `json:"quota_per_hour,omitempty"`
	UpdatedAt   time.Time  `json:"updated_at,omitzero"`
	Epoch       uint64     `json:"epoch,omitempty"`
	Replica     bool       `json:"replica,omitempty"`

	Metadata map[string]string `json:"metadata,omitempty"`
	Policy   versionlog.Policy `json:"policy,omitzero"`
}

func (m *meta) describe() ([]byte, error) {
	d := description{
		Format: descriptionFormat, ID: m.ID, Slug: m.Slug, Name: m.Name, Description: m.Description,
		MaxBytes: m.Limits.MaxMemoryBytes, Content: string(m.Limits.Content),
		QuotaBytes: m.Quota.Bytes, QuotaCount: m.Quota.Memories, QuotaHour: m.Quota.PerHour,
		CreatedAt: m.CreatedAt.UTC(), Creation: m.creation, UpdatedAt: m.UpdatedAt.UTC(), Replica: m.Replica, Metadata: m.Metadata, Policy: m.Policy,
	}
	if m.Epoch > 1 { // as it was written before there were epochs
		d.Epoch = m.Epoch
	}
	if !m.ArchivedAt.IsZero() {
		at := m.ArchivedAt.UTC()
		d.ArchivedAt = &at
	}
	return json.Marshal(d)
}

func parseDescription(data []byte) (*meta, error) {
	var d description
	if err := json.Unmarshal(data, &d); err != nil {
		return nil, fmt.Errorf("%w: %w", versionlog.ErrCorrupt, err)
	}
	if d.Format > descriptionFormat {
		return nil, fmt.Errorf("it has format %d, this mneme reads up to %d: %w; use a newer mneme", d.Format, descriptionFormat, versionlog.ErrFormat)
	}
	m := &meta{creation: d.Creation, Store: versionlog.Store{
		ID: d.ID, Slug: d.Slug, Name: d.Name, Description: d.Description,
		Limits:    versionlog.Limits{MaxMemoryBytes: d.MaxBytes, Content: versionlog.ContentRule(d.Content)},
		Quota:     versionlog.Quota{Bytes: d.QuotaBytes, Memories: d.QuotaCount, PerHour: d.QuotaHour},
		CreatedAt: d.CreatedAt, UpdatedAt: d.UpdatedAt, Epoch: max(d.Epoch, 1), Replica: d.Replica, Metadata: d.Metadata, Policy: d.Policy,
	}}
	if d.ArchivedAt != nil {
		m.ArchivedAt = *d.ArchivedAt
	}
	return m, nil
}

// putDescription writes the description of a store as META has it now, and
// again if META has changed meanwhile: the last writer has seen the last. Only
// one that says something else is replaced, which credentials of a mount may not
// do: then the error is an fs.ErrPermission.
func (l *Log) putDescription(ctx context.Context, storeID string) error {
	var written []byte
	for range 10 {
		m, err := l.table.meta(ctx, storeID)
		if errors.Is(err, versionlog.ErrNotFound) { // deleted
			if written != nil {
				return l.records.remove(ctx, descriptionKey(storeID))
			}
			return nil
		}
		if err != nil {
			return err
		}
		data, err := m.describe()
		if err != nil || bytes.Equal(data, written) {
			return err
		}
		if err := l.records.replace(ctx, descriptionKey(storeID), data); err != nil {
			return awsconf.Explain(err)
		}
		written = data
	}
	return fmt.Errorf("store %s changes faster than it can be described", storeID)
}
