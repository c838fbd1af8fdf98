package awssetup

import (
	"context"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
)

// Versions of objects that were deleted or overwritten, which only an attacker,
// a mistake or `mneme store delete` does, are kept so long.
const (
	keptDays   = 30
	keptPrefix = "stores/"
	ruleName   = "mneme-noncurrent-versions"
)

var (
	versioning = "bucket versioning"
	expiring   = fmt.Sprintf("expiry of noncurrent versions after %d days", keptDays)
)

// keepVersions makes a new bucket keep what is deleted or overwritten in it. A
// server that cannot expire noncurrent versions would keep them for ever, so
// there versioning stays off.
func (s *setup) keepVersions(ctx context.Context) error {
	err := bounded(ctx, expiring, func(ctx context.Context) error {
		_, err := s.clients.S3.PutBucketLifecycleConfiguration(ctx, &s3.PutBucketLifecycleConfigurationInput{
			Bucket: &s.bucket, LifecycleConfiguration: &types.BucketLifecycleConfiguration{Rules: []types.LifecycleRule{{
				ID: aws.String(ruleName), Status: types.ExpirationStatusEnabled,
				Filter:                      &types.LifecycleRuleFilter{Prefix: aws.String(keptPrefix)},
				NoncurrentVersionExpiration: &types.NoncurrentVersionExpiration{NoncurrentDays: aws.Int32(keptDays)},
				Expiration:                  &types.LifecycleExpiration{ExpiredObjectDeleteMarker: aws.Bool(true)},
			}}},
		})
		return err
	})
	if unsupported(err) {
		s.report(Step{What: versioning, Outcome: Unsupported, Note: "it cannot expire noncurrent versions, so that what is deleted would stay for ever"})
		return nil
	}
	if stepErr := s.optional(Step{What: expiring, Outcome: Made}, err); err != nil {
		return stepErr
	}
	err = bounded(ctx, versioning, func(ctx context.Context) error {
		_, err := s.clients.S3.PutBucketVersioning(ctx, &s3.PutBucketVersioningInput{
			Bucket: &s.bucket, VersioningConfiguration: &types.VersioningConfiguration{Status: types.BucketVersioningStatusEnabled},
		})
		return err
	})
	return s.optional(Step{What: versioning, Outcome: Made}, err)
}

// lookAtVersions tells whether a bucket that was there keeps what is deleted in
// it, and for how long. Both are for a person to change: it may hold more than
// stores, and setting a rule replaces all rules that there are.
func (s *setup) lookAtVersions(ctx context.Context) error {
	on := false
	err := bounded(ctx, versioning, func(ctx context.Context) error {
		out, err := s.clients.S3.GetBucketVersioning(ctx, &s3.GetBucketVersioningInput{Bucket: &s.bucket})
		if err == nil {
			on = out.Status == types.BucketVersioningStatusEnabled
		}
		return err
	})
	step := Step{What: versioning, Outcome: WasThere}
	if err == nil && !on {
		step.Outcome, step.Note = Differs, "the bucket was there and forgets what is deleted or overwritten; unless that is wanted: "+versioningCommand(s.bucket, "")
	}
	if err := s.optional(step, err); err != nil || !on {
		return err
	}
	expires := false
	err = bounded(ctx, expiring, func(ctx context.Context) error {
		out, err := s.clients.S3.GetBucketLifecycleConfiguration(ctx, &s3.GetBucketLifecycleConfigurationInput{Bucket: &s.bucket})
		if code(err) == "NoSuchLifecycleConfiguration" {
			return nil
		}
		if err == nil {
			expires = anyExpires(out.Rules)
		}
		return err
	})
	step = Step{What: expiring, Outcome: WasThere}
	if err == nil && !expires {
		step.Outcome, step.Note = Differs, "the bucket was there and keeps what is deleted for ever; unless that is wanted, and where it has no other rules: "+lifecycleCommand(s.bucket, "")
	}
	return s.optional(step, err)
}

// anyExpires reports whether a rule removes noncurrent versions of all that
// mneme puts.
func anyExpires(rules []types.LifecycleRule) bool {
	for _, r := range rules {
		if f := r.Filter; r.Status != types.ExpirationStatusEnabled || f == nil || f.Tag != nil || f.And != nil {
			continue
		}
		if r.NoncurrentVersionExpiration != nil && strings.HasPrefix(keptPrefix, aws.ToString(r.Filter.Prefix)) {
			return true
		}
	}
	return false
}

func versioningCommand(bucket, flag string) string {
	return "aws s3api put-bucket-versioning --bucket " + bucket + " --versioning-configuration Status=Enabled" + flag
}

func lifecycleCommand(bucket, flag string) string {
	return fmt.Sprintf(`aws s3api put-bucket-lifecycle-configuration --bucket %s --lifecycle-configuration '{"Rules":[{"ID":%q,"Status":"Enabled","Filter":{"Prefix":%q},`+
		`"NoncurrentVersionExpiration":{"NoncurrentDays":%d},"Expiration":{"ExpiredObjectDeleteMarker":true}}]}'%s`, bucket, ruleName, keptPrefix, keptDays, flag)
}
