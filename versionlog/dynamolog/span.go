package dynamolog

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"time"

	"mneme/versionlog"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// span are the commits of one transaction, by their sequence numbers. Their
// records are together in one LOG row and in one object of the bucket. 0 to 0
// stands for the description of the store.
type span struct{ first, last uint64 }

func spanOf(commits []*versionlog.Commit) span {
	return span{commits[0].Seq, commits[len(commits)-1].Seq}
}

// name is how the object of a span is called: the sequence number of its only
// commit, or those of the first and the last.
func (s span) name() string {
	if s.first == s.last {
		return fmt.Sprintf("%020d", s.last)
	}
	return fmt.Sprintf("%020d-%020d", s.first, s.last)
}

// parseSpan reads a name, or that of an OUT row.
func parseSpan(name string) (s span, ok bool) {
	first, last, _ := strings.Cut(name, "-")
	if last == "" {
		last = first
	}
	var err, lastErr error
	s.first, err = strconv.ParseUint(first, 10, 64)
	s.last, lastErr = strconv.ParseUint(last, 10, 64)
	return s, err == nil && lastErr == nil && s.first <= s.last
}

// joinRecords puts the records of a span together. No record has a line break.
func joinRecords(records [][]byte) []byte { return bytes.Join(records, []byte{'\n'}) }

// decodeRecords returns the commits of records that were put together: one at
// least, and each follows the one before.
func decodeRecords(data []byte) ([]*versionlog.Commit, error) {
	var commits []*versionlog.Commit
	for line := range bytes.SplitSeq(data, []byte{'\n'}) {
		c, err := versionlog.DecodeRecord(line)
		if err != nil {
			return nil, err
		}
		if n := len(commits); n > 0 && (c.Prev != commits[n-1].Digest || c.Seq != commits[n-1].Seq+1 || c.StoreID != commits[n-1].StoreID) {
			return nil, fmt.Errorf("%w: commit %d does not follow the one before it", versionlog.ErrCorrupt, c.Seq)
		}
		commits = append(commits, c)
	}
	return commits, nil
}

// checkText makes sure that records are the very text of their commits: what else may
// stand in them no digest covers. ErrCorrupt.
func checkText(commits []*versionlog.Commit, data []byte) error {
	for line := range bytes.SplitSeq(data, []byte{'\n'}) {
		if !commits[0].HasRecord(line) {
			return fmt.Errorf("%w: record %d has more than what its digests cover, or has it in another form", versionlog.ErrCorrupt, commits[0].Seq)
		}
		commits = commits[1:]
	}
	return nil
}

// outItem is the OUT row of a transaction: what it owes, and the keys of its
// commits, for which there are no KEY rows yet. Whether what it owes is guarded, see behind.
func outItem(storeID string, commits []*versionlog.Commit, guarded bool) item {
	i := key(storeID, outSort(spanOf(commits)))
	keys := make([]types.AttributeValue, len(commits))
	for n, c := range commits {
		keys[n] = text(c.Key)
	}
	i["keys"] = &types.AttributeValueMemberL{Value: keys}
	if guarded {
		i["guarded"] = boolean(true)
	}
	return i
}

// descriptionOut is the OUT row of a description that is owed since an event, 0 for the
// creation of the store.
func descriptionOut(storeID string, seq uint64) item {
	i := key(storeID, descriptionSort)
	i["seq"] = number(seq)
	return i
}

// descriptionSort is its sort key.
var descriptionSort = outPrefix + span{}.name()

// outSort is the sort key of an OUT row. Both numbers are in it even when they
// are the same: for a mneme that knows only format 1 of the table, and that
// was not ended when it became 2, such a row is damaged, and it leaves it alone.
func outSort(s span) string { return fmt.Sprintf("%s%020d-%020d", outPrefix, s.first, s.last) }

// owed is what an OUT row says.
type owed struct {
	span
	sort    string   // of the row
	keys    []string // of the commits; none in a row of format 1, whose KEY rows are there
	guarded bool
	paid    time.Time // when that was by another process than the one that owed it; zero: it is not, see behind
}

func owedOf(i item) (owed, error) {
	r := row{item: i}
	o := owed{sort: sortOf(i), guarded: r.boolean("guarded"), paid: r.time("paid")}
	ok := false
	o.span, ok = parseSpan(strings.TrimPrefix(o.sort, outPrefix))
	keys, _ := i["keys"].(*types.AttributeValueMemberL)
	if keys != nil {
		for _, k := range keys.Value {
			k, isText := k.(*types.AttributeValueMemberS)
			if ok = ok && isText; ok {
				o.keys = append(o.keys, k.Value)
			}
		}
	}
	if !ok || r.err != nil || len(o.keys) > 0 && uint64(len(o.keys)) != o.last-o.first+1 {
		return o, fmt.Errorf("row %s: %w", r.name(), versionlog.ErrCorrupt)
	}
	return o, nil
}
