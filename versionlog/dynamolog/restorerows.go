package dynamolog

import (
	"context"
	"errors"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"mneme/internal/awsconf"
	"mneme/versionlog"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// restoreRows writes the rows that a rebuild finds missing, or other than they should be,
// while the store is in use. It never brings back what is erased meanwhile, even when the
// process is killed or sleeps: each row that it writes must be what was read, and then no
// redaction since the survey is in META. One that comes later finds the row as it is written,
// or changes it first. errBusy.
func (l *Log) restoreRows(ctx context.Context, id string, found *survey, rows []item) error {
	ctx, cancel := awsconf.WithTimeout(ctx)
	defer cancel()
	refs := make([]ref, len(rows))
	for n, i := range rows {
		refs[n] = ref{id, sortOf(i)}
	}
	there, err := l.table.getAll(ctx, refs)
	if err != nil {
		return err
	}
	m, err := l.table.meta(ctx, id)
	switch {
	case errors.Is(err, versionlog.ErrNotFound) && found.meta == nil:
	case errors.Is(err, versionlog.ErrNotFound):
		return errBusy
	case err != nil:
		return err
	case found.meta == nil || m.redacted > found.tip.Seq:
		return errBusy
	}
	var puts []types.TransactWriteItem
	size := 0
	send := func() error {
		if len(puts) == 0 {
			return nil
		}
		err := l.transact(ctx, puts...)
		puts, size = nil, 0
		if isConditionFailed(err) {
			return errBusy
		}
		return err
	}
	for n, i := range rows {
		old := there[refs[n]]
		if reflect.DeepEqual(old, i) {
			continue
		}
		if old == nil && found.owed[sortOf(i)] { // a purge has removed it, and what the records had
			return errBusy
		}
		if size+sizeOf(i)+sizeOf(old) > maxTransactionBytes {
			if err := send(); err != nil {
				return err
			}
		}
		puts, size = append(puts, putOver(l.table.name, i, old)), size+sizeOf(i)+sizeOf(old)
	}
	return send()
}

// putOver puts a row in the place of one that must be there as it is, or, when that is nil,
// must not be there.
func putOver(table string, i, old item) types.TransactWriteItem {
	one := putNew(table, i)
	if old == nil {
		return one
	}
	attributes := map[string]bool{}
	for name := range old {
		attributes[name] = true
	}
	for name := range i {
		attributes[name] = true
	}
	names, values, same := map[string]string{}, item{}, []string(nil)
	for n, name := range slices.Sorted(maps.Keys(attributes)) {
		short := strconv.Itoa(n)
		names["#a"+short] = name
		if old[name] == nil {
			same = append(same, "attribute_not_exists(#a"+short+")")
			continue
		}
		values[":a"+short] = old[name]
		same = append(same, "#a"+short+" = :a"+short)
	}
	condition := strings.Join(same, " AND ")
	one.Put.ConditionExpression, one.Put.ExpressionAttributeNames, one.Put.ExpressionAttributeValues = &condition, names, values
	return one
}
