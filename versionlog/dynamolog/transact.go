package dynamolog

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"mneme/versionlog"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// The limits of a transaction, and of a row.
const (
	maxRows             = 100
	maxTransactionBytes = 3_500_000
	maxRowBytes         = 390_000

	rowsPerTransaction = 3 // META, LOG, OUT
	rowBytes           = 600
)

// errFull says that a commit does not fit a batch with others in it.
var errFull = errors.New("the transaction is full")

// roomAdvice says what fits a transaction, in terms of files: besides META, LOG
// and OUT, one row for a file that is written, two for one that is removed
// and three for one that is renamed.
var roomAdvice = fmt.Sprintf("on AWS it takes %d files written, %d removed or %d renamed, and %d KB of records: "+
	"split the batch; a directory that is too large to rename can be moved with mv in a mount, which copies it",
	commitRows, commitRows/2, commitRows/3, maxRowBytes/1000)

// commitRows are left for the changes of a commit.
const commitRows = maxRows - rowsPerTransaction

// batch is what becomes one transaction: commits one after another, on a view.
type batch struct {
	ahead
	base     meta             // of the view
	store    versionlog.Store // after the commits
	items    []types.TransactWriteItem
	requests []*request // requests[i] became commits[i]
	records  [][]byte
	recorded int // bytes of records
	keys     map[string]bool
	left     map[string]*versionlog.Version // by path: the last version that left it
	size     int                            // about how many bytes
}

func newBatch(v *view) *batch {
	b := &batch{
		ahead: ahead{view: v, heads: map[string]*versionlog.Version{}},
		keys:  map[string]bool{}, left: map[string]*versionlog.Version{},
	}
	if v != nil {
		b.base, b.store = v.meta, v.meta.Store
	}
	return b
}

// append adds the commit of a request. Errors: errFull, or ErrTooLarge when it
// would not fit alone either.
func (b *batch) append(r *request, c *versionlog.Commit) error {
	record, err := versionlog.EncodeRecord(c)
	if err != nil {
		return err
	}
	size := len(record) + rowBytes
	heads, left := map[string]bool{}, map[string]bool{}
	for path := range leftBy(c) {
		heads[path], left[path] = true, true
	}
	for i := range c.Versions {
		heads[c.Versions[i].Path] = true
		one := len(c.Versions[i].Path) + len(c.Message) + len(c.Session) + len(c.Actor.ID) + rowBytes
		if size += 2 * one; one > maxRowBytes {
			size += maxTransactionBytes
		}
	}
	rows := rowsPerTransaction + len(b.heads) + len(b.left)
	for path := range heads {
		if _, ok := b.heads[path]; !ok {
			rows++
		}
	}
	for path := range left {
		if b.left[path] == nil {
			rows++
		}
	}
	switch tooLarge := rows > maxRows || b.size+size > maxTransactionBytes || b.recorded+len(record) > maxRowBytes; {
	case tooLarge && len(b.commits) > 0:
		return errFull
	case tooLarge:
		return fmt.Errorf("%d changes of %d rows and about %d KB: %w; %s",
			len(c.Versions), rows, size/1000, versionlog.ErrTooLarge, roomAdvice)
	}
	for path, version := range leftBy(c) {
		b.left[path] = version
	}
	b.add(c)
	b.store = b.store.After(c, r.proposal.Finished != nil)
	b.size += size
	b.recorded += len(record) + 1
	b.keys[c.Key] = true
	b.requests, b.records = append(b.requests, r), append(b.records, record)
	return nil
}

// seal makes the items of the transaction, while the view is what the commits
// were built on.
func (b *batch) seal(table string) {
	b.items = []types.TransactWriteItem{
		putNew(table, logItem(b.base.ID, b.tip().Seq, joinRecords(b.records))),
		put(table, outItem(b.base.ID, b.commits, b.base.redacted > 0)), b.advance(table),
	}
	if b.hasEvent() {
		b.items = append(b.items, put(table, descriptionOut(b.base.ID, b.tip().Seq)))
	}
	if c := b.redaction(); c != nil {
		b.items = append(b.items, putNew(table, eraseItem(b.base.ID, c.Seq)))
	}
	for path, head := range b.heads {
		b.items = append(b.items, b.head(table, path, head))
	}
	for path, version := range b.left {
		b.items = append(b.items, put(table, versionItem(b.base.ID, leftSort(path), version)))
	}
}

// hasEvent reports whether the batch changes the store as a whole. Then it has one
// commit, since such a request is alone.
func (b *batch) hasEvent() bool { return len(b.commits) > 0 && b.commits[0].Event != nil }

// redaction returns the one commit of a batch that erases versions, nil for another batch.
func (b *batch) redaction() *versionlog.Commit {
	if b.hasEvent() && b.commits[0].Erases() {
		return b.commits[0]
	}
	return nil
}

// erases are the versions that the redaction erases, as they are. The view knows them, for
// it was judged by it.
func (b *batch) erases() (versions []versionlog.Version) {
	for _, id := range b.redaction().Event.ErasedVersions() {
		if v := b.view.versions[id]; v != nil && !v.Redacted() {
			versions = append(versions, *v)
		}
	}
	return versions
}

// asJudged is the condition, with its names and values, that META is what a proposal was
// judged on: all that does not follow from the history up to its tip. An earlier mneme wrote
// no "replica".
func (m *meta) asJudged() (condition string, names map[string]string, values item) {
	condition, names, values = m.fenceCondition()
	condition += " AND #head_seq = :seq0 AND #digest = :digest0 AND #creation = :creation0 AND " +
		"(#replica = :replica0 OR attribute_not_exists(#replica))"
	for _, name := range []string{"head_seq", "digest", "creation", "replica"} {
		names["#"+name] = name
	}
	values[":seq0"], values[":digest0"] = number(m.tip.Seq), digestOf(m.tip.Digest)
	values[":creation0"], values[":replica0"] = text(m.creation), boolean(m.Replica)
	return condition, names, values
}

// fenceCondition is the condition that the fence, and whether the store is archived, is what
// META has, with its names and values.
func (m *meta) fenceCondition() (condition string, names map[string]string, values item) {
	names = map[string]string{"#fence": "fence", "#archived0": m.archivedName()}
	values = item{":archived0": microsOf(m.ArchivedAt)}
	condition = "#archived0 = :archived0 AND "
	if m.fence == 0 {
		return condition + "attribute_not_exists(#fence)", names, values
	}
	values[":fence0"] = number(m.fence)
	return condition + "#fence = :fence0", names, values
}

// judgedAlike reports whether a proposal is judged on both alike.
func (m *meta) judgedAlike(other *meta) bool {
	return m.tip.Seq == other.tip.Seq && m.tip.Digest == other.tip.Digest && m.ArchivedAt.Equal(other.ArchivedAt) &&
		m.creation == other.creation && m.Replica == other.Replica && m.fence == other.fence
}

// advance moves META from the tip of the view to that of the batch.
func (b *batch) advance(table string) types.TransactWriteItem {
	m, tip := &b.base, b.tip()
	if b.redaction() != nil {
		tip.Totals = tip.Totals.Erased(b.erases())
	}
	attributes := m.tipItem(tip)
	after := *m
	if c := b.redaction(); c != nil {
		after.redacted, after.erased = c.Seq, m.redacted
		attributes["redacted"], attributes["erased"] = number(after.redacted), number(after.erased)
	}
	if b.hasEvent() {
		maps.Copy(attributes, after.settings(&b.store))
	}
	set, names, values := setAll(attributes)
	if m.archivedName() != after.archivedName() {
		set += " REMOVE #archived0"
	}
	condition, judgedNames, judgedValues := m.asJudged()
	maps.Copy(names, judgedNames)
	maps.Copy(values, judgedValues)
	return types.TransactWriteItem{Update: &types.Update{
		TableName: &table, Key: key(m.ID, metaSort),
		UpdateExpression:          &set,
		ConditionExpression:       &condition,
		ExpressionAttributeNames:  names,
		ExpressionAttributeValues: values,
	}}
}

// setAll returns an update expression for attributes, with its names and values.
func setAll(attributes item) (expression string, names map[string]string, values item) {
	names, values = map[string]string{}, item{}
	var set []string
	for _, name := range slices.Sorted(maps.Keys(attributes)) {
		set = append(set, "#"+name+" = :"+name)
		names["#"+name], values[":"+name] = name, attributes[name]
	}
	return "SET " + strings.Join(set, ", "), names, values
}

// head changes what lives at a path. That it is what the view says follows from
// the condition on META already; this one makes sure.
func (b *batch) head(table, path string, head *versionlog.Version) types.TransactWriteItem {
	m := &b.base
	condition, names, values := "attribute_not_exists(sk)", map[string]string(nil), item(nil)
	if old, _ := b.view.Head(path); old != nil {
		condition, names, values = "#id = :id", map[string]string{"#id": "id"}, item{":id": text(old.ID)}
	}
	if head == nil {
		return types.TransactWriteItem{Delete: &types.Delete{
			TableName: &table, Key: key(m.ID, path), ConditionExpression: &condition,
			ExpressionAttributeNames: names, ExpressionAttributeValues: values,
		}}
	}
	return types.TransactWriteItem{Put: &types.Put{
		TableName: &table, Item: versionItem(m.ID, path, head), ConditionExpression: &condition,
		ExpressionAttributeNames: names, ExpressionAttributeValues: values,
	}}
}

func put(table string, i item) types.TransactWriteItem {
	return types.TransactWriteItem{Put: &types.Put{TableName: &table, Item: i}}
}

// putNew puts a row that must not be there.
func putNew(table string, i item) types.TransactWriteItem {
	return types.TransactWriteItem{Put: &types.Put{
		TableName: &table, Item: i, ConditionExpression: aws.String("attribute_not_exists(sk)"),
	}}
}

// putIfThere puts a row in the place of one that must be there.
func putIfThere(table string, i item) types.TransactWriteItem {
	return types.TransactWriteItem{Put: &types.Put{
		TableName: &table, Item: i, ConditionExpression: aws.String("attribute_exists(sk)"),
	}}
}
