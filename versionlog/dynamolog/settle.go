package dynamolog

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"mneme/internal/awsconf"
	"mneme/versionlog"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"
)

// maxDisagreements is how often a store's transactions may be refused although the
// store is where the view says.
const maxDisagreements = 3

const (
	conditionFailed  = "ConditionalCheckFailed"
	validationFailed = "ValidationError"
)

// finish sends a batch and tells its callers. It goes on under the life of the
// log when they leave.
func (s *store) finish(b *batch) {
	ctx, cancel := context.WithTimeout(s.log.life, s.log.settling)
	defer cancel()
	for attempt := 0; ; attempt++ {
		err := backoff(ctx, attempt)
		if err == nil {
			_, err = s.log.table.db.TransactWriteItems(ctx, &dynamodb.TransactWriteItemsInput{TransactItems: b.items})
		}
		if err == nil {
			s.succeed(b)
			return
		}
		landed, moved, settleErr := s.settle(ctx, b)
		switch {
		case landed:
			s.succeed(b)
		case settleErr != nil && isVerdict(settleErr): // such as a store that was deleted
			b.fail(settleErr)
		case settleErr != nil || ctx.Err() != nil:
			b.fail(fmt.Errorf("append to the log: %w", errors.Join(awsconf.Explain(err), awsconf.Explain(settleErr))))
		case isPermanent(err):
			s.refuse(b, err)
		case moved || isConditionFailed(err):
			s.disagree(b, moved)
		default: // it had no effect, and the same may succeed
			continue
		}
		return
	}
}

// succeed makes a batch that landed part of the view.
func (s *store) succeed(b *batch) {
	s.mu.Lock()
	for _, c := range b.commits {
		if s.view == nil || !s.view.apply(c) {
			break // the next call that uses the view brings it up to date
		}
	}
	if s.view != nil && s.view.meta.tip.Digest == b.tip().Digest {
		s.view.meta.Store = b.store
	}
	if c := b.redaction(); c != nil {
		s.view = nil // it knows what is erased
		s.sawRedactedLocked(c.Seq)
	}
	s.disagreements = 0
	s.last.size, s.last.end = len(b.commits), time.Now()
	s.mu.Unlock()
	s.wake()
	s.recordLater(b.commits, joinRecords(b.records), b.base.redacted > 0)
	s.foldLater(spanOf(b.commits))
	if b.hasEvent() {
		s.describeLater()
	}
	for i, r := range b.requests {
		r.done <- outcome{commit: b.commits[i]}
	}
}

func (b *batch) fail(err error) {
	for _, r := range b.requests {
		r.done <- outcome{err: err}
	}
}

// settle finds out what became of a transaction that got an error: whether it
// landed all the same, or the store has moved on, so that it cannot land any
// more. The digest of a commit binds random salts: no other has it.
func (s *store) settle(ctx context.Context, b *batch) (landed, moved bool, err error) {
	rows, _, err := s.log.table.page(ctx, between{
		partition: s.id, from: logSort(b.base.tip.Seq + 1), to: logSort(b.base.tip.Seq + maxRows),
	}, nil)
	if err != nil {
		return false, false, err
	}
	for i, row := range rows {
		commits, err := commitsOf(row)
		if err != nil {
			return false, false, err
		}
		if i == 0 && commits[0].Digest == b.commits[0].Digest {
			return true, false, nil
		}
		for _, c := range commits {
			s.applyForeign(c)
		}
	}
	if len(rows) > 0 {
		s.wake()
		return false, true, nil
	}
	m, err := s.readMeta(ctx)
	if err == nil {
		err = s.follow(ctx, m)
	} else if errors.Is(err, versionlog.ErrNotFound) {
		s.forget()
	}
	if err != nil {
		return false, false, err
	}
	return false, !m.judgedAlike(&b.base), nil
}

// refuse tells a caller that its transaction is refused for good. Of several
// that shared one, each tries alone.
func (s *store) refuse(b *batch, err error) {
	if len(b.requests) == 1 {
		b.fail(fmt.Errorf("append to the log: %w", awsconf.Explain(err)))
		return
	}
	for _, r := range b.requests {
		r.alone = true
	}
	s.giveBack(b.requests)
}

// disagree has the proposals of a batch tried again on a view that is up to
// date. When the store is where the view says, the rows do not agree with each
// other.
func (s *store) disagree(b *batch, moved bool) {
	if !moved {
		s.mu.Lock()
		s.disagreements++
		giveUp := s.disagreements > maxDisagreements
		s.view = nil // perhaps it is the view that is wrong
		s.mu.Unlock()
		if giveUp {
			b.fail(fmt.Errorf("append to the log: %w: the table's rows do not agree with its tip", versionlog.ErrCorrupt))
			return
		}
	}
	s.giveBack(b.requests)
}

// reasonsOf returns why each item of a transaction was refused.
func reasonsOf(err error) []string {
	var canceled *types.TransactionCanceledException
	if !errors.As(err, &canceled) {
		return nil
	}
	reasons := make([]string, len(canceled.CancellationReasons))
	for i, r := range canceled.CancellationReasons {
		if r.Code != nil {
			reasons[i] = *r.Code
		}
	}
	return reasons
}

func hasReason(err error, reason string) bool {
	for _, r := range reasonsOf(err) {
		if r == reason {
			return true
		}
	}
	return false
}

func isConditionFailed(err error) bool { return hasReason(err, conditionFailed) }

// isPermanent reports whether the same request would always be refused.
func isPermanent(err error) bool {
	var api smithy.APIError
	if !errors.As(err, &api) {
		return false
	}
	switch api.ErrorCode() {
	case "TransactionCanceledException":
		return hasReason(err, validationFailed)
	case "TransactionConflictException", "TransactionInProgressException",
		"ProvisionedThroughputExceededException", "ThrottlingException", "RequestLimitExceeded":
		return false
	}
	var response interface{ HTTPStatusCode() int }
	if !errors.As(err, &response) {
		return false
	}
	status := response.HTTPStatusCode()
	return status >= http.StatusBadRequest && status < http.StatusInternalServerError && status != http.StatusTooManyRequests
}
