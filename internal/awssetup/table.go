package awssetup

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"mneme/internal/awsconf"
)

func (s *setup) makeTable(ctx context.Context) error {
	what := "table " + s.table
	table, err := s.describe(ctx)
	outcome := WasThere
	var absent *types.ResourceNotFoundException
	if errors.As(err, &absent) {
		outcome = Made
		err = bounded(ctx, what, s.createTable)
		var inUse *types.ResourceInUseException
		if errors.As(err, &inUse) { // another setup was faster
			outcome, err = WasThere, nil
		}
	}
	if err != nil {
		return err
	}
	if table, err = s.waitActive(ctx, table); err != nil {
		return err
	}
	if err := s.checkSchema(table); err != nil {
		return err
	}
	s.account, s.protected = accountOf(aws.ToString(table.TableArn)), aws.ToBool(table.DeletionProtectionEnabled)
	step := Step{What: what, Outcome: outcome, Note: "on-demand billing"}
	if b := table.BillingModeSummary; b != nil && b.BillingMode == types.BillingModeProvisioned {
		step.Note = "provisioned capacity; on-demand billing fits the load of agents better"
	}
	s.report(step)
	return nil
}

var accountID = regexp.MustCompile(`^[0-9]{12}$`)

// accountOf returns the account that the ARN of a table names. That of a server
// without accounts is "": it has zeroes there.
func accountOf(arn string) string {
	const place = 4 // arn:aws:dynamodb:REGION:ACCOUNT:table/NAME
	parts := strings.Split(arn, ":")
	if len(parts) <= place || !accountID.MatchString(parts[place]) || strings.Trim(parts[place], "0") == "" {
		return ""
	}
	return parts[place]
}

func (s *setup) describe(ctx context.Context) (table *types.TableDescription, err error) {
	err = bounded(ctx, "table "+s.table, func(ctx context.Context) error {
		out, err := s.clients.DynamoDB.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: &s.table})
		if err == nil {
			table = out.Table
		}
		return err
	})
	return table, err
}

func (s *setup) createTable(ctx context.Context) error {
	_, err := s.clients.DynamoDB.CreateTable(ctx, &dynamodb.CreateTableInput{
		TableName:   &s.table,
		BillingMode: types.BillingModePayPerRequest,
		AttributeDefinitions: []types.AttributeDefinition{
			{AttributeName: aws.String(PartitionKey), AttributeType: types.ScalarAttributeTypeS},
			{AttributeName: aws.String(SortKey), AttributeType: types.ScalarAttributeTypeS},
		},
		KeySchema: []types.KeySchemaElement{
			{AttributeName: aws.String(PartitionKey), KeyType: types.KeyTypeHash},
			{AttributeName: aws.String(SortKey), KeyType: types.KeyTypeRange},
		},
	})
	return err
}

// waitActive returns the table when it can be used. A table just made may not
// be found yet.
func (s *setup) waitActive(ctx context.Context, table *types.TableDescription) (*types.TableDescription, error) {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	for table == nil || table.TableStatus != types.TableStatusActive && table.TableStatus != types.TableStatusUpdating {
		var err error
		table, err = s.describe(ctx)
		var absent *types.ResourceNotFoundException
		if err != nil && !errors.As(err, &absent) {
			return nil, err
		}
		if table != nil && table.TableStatus == types.TableStatusActive {
			break
		}
		select {
		case <-time.After(pollPeriod):
		case <-ctx.Done():
			return nil, fmt.Errorf("table %s: not ready after %v; run the setup again: %w", s.table, readyTimeout, ctx.Err())
		}
	}
	return table, nil
}

// ErrForeignTable says that a table was made for something else.
var ErrForeignTable = errors.New("the table is not one of mneme's")

func (s *setup) checkSchema(table *types.TableDescription) error {
	keys := map[types.KeyType]string{}
	for _, k := range table.KeySchema {
		keys[k.KeyType] = aws.ToString(k.AttributeName)
	}
	for _, a := range table.AttributeDefinitions {
		for kind, name := range keys {
			if name == aws.ToString(a.AttributeName) && a.AttributeType != types.ScalarAttributeTypeS {
				keys[kind] += " of type " + string(a.AttributeType)
			}
		}
	}
	if keys[types.KeyTypeHash] != PartitionKey || keys[types.KeyTypeRange] != SortKey {
		return fmt.Errorf("table %s: %w: its keys are %q and %q, not %q and %q (strings); name another table in the URL",
			s.table, ErrForeignTable, keys[types.KeyTypeHash], keys[types.KeyTypeRange], PartitionKey, SortKey)
	}
	return nil
}

// expiry turns time-to-live on: idempotency keys go away a week after they were
// last of use.
func (s *setup) expiry(ctx context.Context) error {
	what := "time to live on " + TTLAttribute
	var found types.TimeToLiveDescription
	err := bounded(ctx, what, func(ctx context.Context) error {
		out, err := s.clients.DynamoDB.DescribeTimeToLive(ctx, &dynamodb.DescribeTimeToLiveInput{TableName: &s.table})
		if err == nil && out.TimeToLiveDescription != nil {
			found = *out.TimeToLiveDescription
		}
		return err
	})
	on := found.TimeToLiveStatus == types.TimeToLiveStatusEnabled || found.TimeToLiveStatus == types.TimeToLiveStatusEnabling
	step := Step{What: what, Outcome: WasThere}
	switch {
	case err == nil && on && aws.ToString(found.AttributeName) == TTLAttribute:
	case err == nil && on:
		step.Outcome, step.Note = Differs, fmt.Sprintf("it is on %q; old idempotency keys stay", aws.ToString(found.AttributeName))
	case err == nil:
		step.Outcome = Made
		err = bounded(ctx, what, func(ctx context.Context) error {
			_, err := s.clients.DynamoDB.UpdateTimeToLive(ctx, &dynamodb.UpdateTimeToLiveInput{
				TableName:               &s.table,
				TimeToLiveSpecification: &types.TimeToLiveSpecification{AttributeName: aws.String(TTLAttribute), Enabled: aws.Bool(true)},
			})
			return err
		})
	}
	return s.optional(step, err)
}

// backups turns point-in-time recovery on: any second of the last 35 days.
func (s *setup) backups(ctx context.Context) error {
	const what = "point-in-time recovery"
	on := false
	err := bounded(ctx, what, func(ctx context.Context) error {
		out, err := s.clients.DynamoDB.DescribeContinuousBackups(ctx, &dynamodb.DescribeContinuousBackupsInput{TableName: &s.table})
		if err == nil && out.ContinuousBackupsDescription != nil {
			if d := out.ContinuousBackupsDescription.PointInTimeRecoveryDescription; d != nil {
				on = d.PointInTimeRecoveryStatus == types.PointInTimeRecoveryStatusEnabled
			}
		}
		return err
	})
	step := Step{What: what, Outcome: WasThere}
	if err == nil && !on {
		step.Outcome = Made
		err = s.enableBackups(ctx, what)
	}
	return s.optional(step, err)
}

// enableBackups waits while the service still prepares a new table for them.
func (s *setup) enableBackups(ctx context.Context, what string) error {
	ctx, cancel := awsconf.WithTimeout(ctx)
	defer cancel()
	for {
		err := bounded(ctx, what, func(ctx context.Context) error {
			_, err := s.clients.DynamoDB.UpdateContinuousBackups(ctx, &dynamodb.UpdateContinuousBackupsInput{
				TableName:                        &s.table,
				PointInTimeRecoverySpecification: &types.PointInTimeRecoverySpecification{PointInTimeRecoveryEnabled: aws.Bool(true)},
			})
			return err
		})
		var notYet *types.ContinuousBackupsUnavailableException
		if !errors.As(err, &notYet) {
			return err
		}
		select {
		case <-time.After(pollPeriod):
		case <-ctx.Done():
			return err
		}
	}
}

// protect makes the service refuse to delete the table.
func (s *setup) protect(ctx context.Context) error {
	step := Step{What: "deletion protection", Outcome: WasThere}
	if s.protected {
		s.report(step)
		return nil
	}
	step.Outcome = Made
	err := bounded(ctx, step.What, func(ctx context.Context) error {
		_, err := s.clients.DynamoDB.UpdateTable(ctx, &dynamodb.UpdateTableInput{TableName: &s.table, DeletionProtectionEnabled: aws.Bool(true)})
		return err
	})
	return s.optional(step, err)
}

// optional reports a step that a server need not know.
func (s *setup) optional(step Step, err error) error {
	switch {
	case err == nil:
	case unsupported(err):
		step.Outcome, step.Note = Unsupported, ""
	case denied(err):
		step.Outcome, step.Note = Differs, "these credentials may not look at it or change it"
	default:
		return err
	}
	s.report(step)
	return nil
}
