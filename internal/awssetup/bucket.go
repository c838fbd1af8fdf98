package awssetup

import (
	"context"
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
)

// defaultRegion is the one region that S3 wants not to be named when a bucket
// is made there.
const defaultRegion = "us-east-1"

// ErrForeignBucket says that a bucket belongs to another account than it should.
var ErrForeignBucket = errors.New("the bucket belongs to another account")

func (s *setup) makeBucket(ctx context.Context) error {
	what := "bucket " + s.bucket
	if s.owner == "" && s.clients.AWSBuckets() {
		s.owner = s.account
	}
	err := s.headBucket(ctx)
	if err == nil {
		s.report(Step{What: what, Outcome: WasThere})
		s.reportOwner()
		return s.lookAt(ctx)
	}
	var absent *types.NotFound
	switch {
	case !errors.As(err, &absent):
		return err
	case s.account != "" && s.owner != s.account && s.clients.AWSBuckets():
		return fmt.Errorf("%w, and these credentials, which are of account %s, cannot make one for account %s", err, s.account, s.owner)
	}
	in := &s3.CreateBucketInput{Bucket: &s.bucket}
	if s.clients.Region != defaultRegion {
		in.CreateBucketConfiguration = &types.CreateBucketConfiguration{
			LocationConstraint: types.BucketLocationConstraint(s.clients.Region),
		}
	}
	err = bounded(ctx, what, func(ctx context.Context) error {
		_, err := s.clients.S3.CreateBucket(ctx, in)
		return err
	})
	var owned *types.BucketAlreadyOwnedByYou
	switch {
	case errors.As(err, &owned): // another setup was faster
		s.report(Step{What: what, Outcome: WasThere})
		s.reportOwner()
		return s.lookAt(ctx)
	case err != nil:
		return err
	}
	s.report(Step{What: what, Outcome: Made, Note: "region " + s.clients.Region})
	s.reportOwner()
	if err := s.blockAccess(ctx); err != nil {
		return err
	}
	return s.keepVersions(ctx)
}

// headBucket asks for the bucket, which has to belong to the owner. A bucket
// that is denied to its supposed owner but is there is another's.
func (s *setup) headBucket(ctx context.Context) error {
	head := func(owner string) error {
		s.clients.ExpectBucketOwner(owner)
		return bounded(ctx, "bucket "+s.bucket, func(ctx context.Context) error {
			_, err := s.clients.S3.HeadBucket(ctx, &s3.HeadBucketInput{Bucket: &s.bucket})
			return err
		})
	}
	err := head(s.owner)
	if s.owner != "" && denied(err) && head("") == nil {
		err = fmt.Errorf("bucket %s: %w, not to %s", s.bucket, ErrForeignBucket, s.owner)
	}
	s.clients.ExpectBucketOwner(s.owner)
	return err
}

func (s *setup) reportOwner() {
	step := Step{What: "owner of bucket " + s.bucket, Outcome: Ready, Note: s.owner}
	if s.owner == "" {
		step.Outcome, step.Note = Unsupported, "no account is known here, so no request names one"
	}
	s.report(step)
}

const publicAccess = "public access block"

var blockAll = &types.PublicAccessBlockConfiguration{
	BlockPublicAcls: aws.Bool(true), IgnorePublicAcls: aws.Bool(true),
	BlockPublicPolicy: aws.Bool(true), RestrictPublicBuckets: aws.Bool(true),
}

// blockAccess makes sure that nothing can make the new bucket public.
func (s *setup) blockAccess(ctx context.Context) error {
	err := bounded(ctx, publicAccess, func(ctx context.Context) error {
		_, err := s.clients.S3.PutPublicAccessBlock(ctx, &s3.PutPublicAccessBlockInput{
			Bucket: &s.bucket, PublicAccessBlockConfiguration: blockAll,
		})
		return err
	})
	switch {
	case err == nil:
		s.report(Step{What: publicAccess, Outcome: Made, Note: "all four settings"})
	case unsupported(err):
		s.report(Step{What: publicAccess, Outcome: Unsupported})
	default:
		return err
	}
	return nil
}

// lookAt reports the settings of a bucket that was there.
func (s *setup) lookAt(ctx context.Context) error {
	if err := s.lookAtAccess(ctx); err != nil {
		return err
	}
	return s.lookAtVersions(ctx)
}

// lookAtAccess tells whether a bucket that was there could be made public. It
// may be so on purpose, so that is for a person to change.
func (s *setup) lookAtAccess(ctx context.Context) error {
	blocked := false
	err := bounded(ctx, publicAccess, func(ctx context.Context) error {
		out, err := s.clients.S3.GetPublicAccessBlock(ctx, &s3.GetPublicAccessBlockInput{Bucket: &s.bucket})
		if err == nil {
			c := out.PublicAccessBlockConfiguration
			blocked = c != nil && aws.ToBool(c.BlockPublicAcls) && aws.ToBool(c.IgnorePublicAcls) &&
				aws.ToBool(c.BlockPublicPolicy) && aws.ToBool(c.RestrictPublicBuckets)
		}
		return err
	})
	step := Step{What: publicAccess, Outcome: WasThere}
	switch {
	case err == nil && blocked:
	case err == nil || code(err) == "NoSuchPublicAccessBlockConfiguration":
		step.Outcome, step.Note = Differs, "the bucket was there and could be made public; unless that is wanted: "+blockCommand(s.bucket, "")
	case unsupported(err):
		step.Outcome = Unsupported
	case denied(err):
		step.Outcome, step.Note = Differs, "these credentials may not look at it"
	default:
		return err
	}
	s.report(step)
	return nil
}
