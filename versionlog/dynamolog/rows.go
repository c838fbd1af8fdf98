package dynamolog

import (
	"encoding/json"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"

	"mneme/cas"
	"mneme/versionlog"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// The rows of the table. docs/FORMAT.md describes them.
const (
	formatPartition = "FORMAT"
	storesPartition = "STORES"
	slugPrefix      = "SLUG#"

	formatSort = "FORMAT"
	slugSort   = "STORE"
	metaSort   = "META"
	logPrefix  = "LOG#"
	memPrefix  = "MEM#"
	keyPrefix  = "KEY#"
	outPrefix  = "OUT#"

	erasePrefix = "ERASE#"
	gonePrefix  = "GONE#"
	snapSort    = "SNAP"
	leftPrefix  = "-" // and a path without its slash

	maxPath = 1024      // bytes; what a sort key takes
	maxSeq  = 1<<63 - 1 // behind every sequence number

	keyLife = 7 * 24 * time.Hour // how long an idempotency key is remembered
)

// item is a row.
type item map[string]types.AttributeValue

func key(partition, sort string) item {
	return item{"store_id": text(partition), "sk": text(sort)}
}

func logSort(seq uint64) string { return fmt.Sprintf("%s%020d", logPrefix, seq) }
func keySort(k string) string   { return keyPrefix + k }
func leftSort(p string) string  { return leftPrefix + p[1:] }
func memSort(v *versionlog.Version, ordinal int) string {
	return fmt.Sprintf("%s%s#%020d#%05d", memPrefix, v.MemoryID, v.Seq, ordinal)
}

// isStoreID reports whether an id can be a store's: the partitions that are no
// stores cannot, and the id is part of keys of the bucket.
func isStoreID(id string) bool {
	return id != "" && len(id) <= 128 && id != formatPartition && id != storesPartition && !strings.ContainsAny(id, "#/")
}

// isNote reports whether a row follows from no record, and says what is going on.
func isNote(sort string) bool {
	return strings.HasPrefix(sort, erasePrefix) || strings.HasPrefix(sort, gonePrefix) || sort == snapSort
}

func isPath(p string) bool { return len(p) > 1 && len(p) <= maxPath && p[0] == '/' }

func text(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }
func bytesOf(b []byte) types.AttributeValue {
	return &types.AttributeValueMemberB{Value: b}
}
func number[T int64 | uint64 | int](n T) types.AttributeValue {
	return &types.AttributeValueMemberN{Value: fmt.Sprint(n)}
}

func boolean(b bool) types.AttributeValue { return &types.AttributeValueMemberBOOL{Value: b} }

func microsOf(t time.Time) types.AttributeValue {
	if t.IsZero() {
		return number(0)
	}
	return number(t.UnixMicro())
}

func digestOf(d versionlog.Digest) types.AttributeValue {
	if d.IsZero() {
		return text("")
	}
	return text(d.String())
}

// row reads the attributes of an item. The first that is not what it should be
// is the error; one that is missing is zero.
type row struct {
	item item
	err  error
}

func (r *row) text(name string) string {
	switch a := r.item[name].(type) {
	case nil:
	case *types.AttributeValueMemberS:
		return a.Value
	default:
		r.fail(name)
	}
	return ""
}

func (r *row) bytes(name string) []byte {
	a, ok := r.item[name].(*types.AttributeValueMemberB)
	if !ok {
		r.fail(name)
		return nil
	}
	return a.Value
}

func (r *row) boolean(name string) bool {
	switch a := r.item[name].(type) {
	case nil:
	case *types.AttributeValueMemberBOOL:
		return a.Value
	default:
		r.fail(name)
	}
	return false
}

// texts returns a map of texts, nil when it is empty.
func (r *row) texts(name string) map[string]string {
	a, ok := r.item[name].(*types.AttributeValueMemberM)
	if !ok && r.item[name] != nil {
		r.fail(name)
	}
	if !ok || len(a.Value) == 0 {
		return nil
	}
	found := map[string]string{}
	for key, value := range a.Value {
		one, ok := value.(*types.AttributeValueMemberS)
		if !ok {
			r.fail(name)
			return nil
		}
		found[key] = one.Value
	}
	return found
}

func (r *row) int(name string) int64 {
	switch a := r.item[name].(type) {
	case nil:
	case *types.AttributeValueMemberN:
		if n, err := strconv.ParseInt(a.Value, 10, 64); err == nil {
			return n
		}
		r.fail(name)
	default:
		r.fail(name)
	}
	return 0
}

func (r *row) time(name string) time.Time {
	if micros := r.int(name); micros != 0 {
		return time.UnixMicro(micros).UTC()
	}
	return time.Time{}
}

func (r *row) digest(name string) versionlog.Digest {
	hex := r.text(name)
	if hex == "" {
		return versionlog.Digest{}
	}
	d, err := cas.ParseDigest(hex)
	if err != nil {
		r.fail(name)
	}
	return d
}

func (r *row) fail(name string) {
	if r.err == nil {
		r.err = fmt.Errorf("%w: row %s: attribute %s is %T", versionlog.ErrCorrupt, r.name(), name, r.item[name])
	}
}

func (r *row) name() string {
	sort, _ := r.item["sk"].(*types.AttributeValueMemberS)
	partition, _ := r.item["store_id"].(*types.AttributeValueMemberS)
	if sort == nil || partition == nil {
		return "without a key"
	}
	return partition.Value + " " + sort.Value
}

// sortOf returns the sort key of a row.
func sortOf(i item) string {
	if s, ok := i["sk"].(*types.AttributeValueMemberS); ok {
		return s.Value
	}
	return ""
}

// meta is a store's META row.
type meta struct {
	versionlog.Store
	creation string // random; tells apart two stores of one id, one after the other
	tip      versionlog.Tip
	// redacted is the newest commit that erases versions, 0 for none; erased is the one up
	// to which that is done, see erase.go.
	redacted, erased uint64
	fence            uint64 // how often contents were condemned, see condemned
	uncounted        bool   // a mneme that keeps no totals has written: those of tip are not right, see store.count
}

func (m *meta) item() item {
	i := key(m.ID, metaSort)
	i["slug"], i["creation"] = text(m.Slug), text(m.creation)
	maps.Copy(i, m.settings(&m.Store))
	maps.Copy(i, m.tipItem(m.tip))
	if m.redacted > 0 {
		i["redacted"], i["erased"] = number(m.redacted), number(m.erased)
	}
	if m.fence > 0 {
		i["fence"] = number(m.fence)
	}
	return i
}

// archivedName is the attribute that says when the store was archived. It gets another name
// when something is erased for the first time: the commits of an earlier mneme, which knows
// no fence and may be running, have a condition on the old one, and fail from then on.
func (m *meta) archivedName() string {
	if m.erasing() {
		return "archived"
	}
	return "archived_at"
}

// erasing reports whether something was ever erased, or condemned, in the store.
func (m *meta) erasing() bool { return m.redacted > 0 || m.fence > 0 }

// settings returns the attributes that events change.
func (m *meta) settings(s *versionlog.Store) item {
	metadata := map[string]types.AttributeValue{}
	for key, value := range s.Metadata {
		metadata[key] = text(value)
	}
	return item{
		"name": text(s.Name), "description": text(s.Description), "metadata": &types.AttributeValueMemberM{Value: metadata},
		"max_memory_bytes": number(s.Limits.MaxMemoryBytes), "content": text(string(s.Limits.Content)),
		"quota_bytes": number(s.Quota.Bytes), "quota_memories": number(s.Quota.Memories), "quota_per_hour": number(s.Quota.PerHour),
		"created_at": microsOf(s.CreatedAt), "updated_at": microsOf(s.UpdatedAt), m.archivedName(): microsOf(s.ArchivedAt),
		"epoch": number(s.Epoch), "replica": boolean(s.Replica), "policy": text(policyText(s.Policy)),
	}
}

// tipItem returns the attributes that change with every commit.
func (m *meta) tipItem(t versionlog.Tip) item {
	i := item{"head_seq": number(t.Seq), "digest": digestOf(t.Digest), "time": microsOf(t.Time)}
	if !m.uncounted {
		i["counted_seq"] = number(t.Seq)
		i["total_bytes"], i["total_memories"], i["in_hour"] = number(t.Totals.Bytes), number(t.Totals.Memories), number(t.Totals.InHour)
	}
	return i
}

func metaOf(i item) (*meta, error) {
	r := row{item: i}
	m := &meta{
		Store: versionlog.Store{
			ID: r.text("store_id"), Slug: r.text("slug"), Name: r.text("name"), Description: r.text("description"),
			Limits:    versionlog.Limits{MaxMemoryBytes: r.int("max_memory_bytes"), Content: versionlog.ContentRule(r.text("content"))},
			Quota:     versionlog.Quota{Bytes: r.int("quota_bytes"), Memories: r.int("quota_memories"), PerHour: r.int("quota_per_hour")},
			Metadata:  r.texts("metadata"),
			CreatedAt: r.time("created_at"), UpdatedAt: r.time("updated_at"),
			Epoch: uint64(max(r.int("epoch"), 1)), Replica: r.boolean("replica"),
		},
		creation: r.text("creation"), redacted: uint64(r.int("redacted")), erased: uint64(r.int("erased")), fence: uint64(r.int("fence")), uncounted: r.int("counted_seq") != r.int("head_seq"),
		tip: versionlog.Tip{
			Seq: uint64(r.int("head_seq")), Digest: r.digest("digest"), Time: r.time("time"),
			Totals: versionlog.Totals{Bytes: r.int("total_bytes"), Memories: r.int("total_memories"), InHour: r.int("in_hour")},
		},
	}
	m.ArchivedAt = r.time(m.archivedName())
	m.tip.ArchivedAt = m.ArchivedAt
	if policy := r.text("policy"); r.err == nil && policy != "" {
		if err := json.Unmarshal([]byte(policy), &m.Policy); err != nil {
			r.err = fmt.Errorf("%w: row %s: attribute policy: %w", versionlog.ErrCorrupt, r.name(), err)
		}
	}
	return m, r.err
}

// policyText is the attribute policy: JSON, or empty where nothing is asked.
func policyText(p versionlog.Policy) string {
	if p == (versionlog.Policy{}) {
		return ""
	}
	text, _ := json.Marshal(p) // of numbers and a word
	return string(text)
}

// versionItem returns the row of a version under a sort key.
func versionItem(storeID, sort string, v *versionlog.Version) item {
	i := key(storeID, sort)
	i["id"], i["memory_id"], i["seq"], i["op"] = text(v.ID), text(v.MemoryID), number(v.Seq), text(string(v.Op))
	i["size"], i["time"], i["actor_kind"], i["actor_id"] = number(v.Size), microsOf(v.Time), text(string(v.Actor.Kind)), text(v.Actor.ID)
	for name, value := range map[string]string{"parent": v.Parent, "from": v.From, "spelling": v.Spelling, "session": v.Session, "message": v.Message} {
		if value != "" {
			i[name] = text(value)
		}
	}
	if v.Path != sort && !v.Redacted() {
		i["path"] = text(v.Path)
	}
	if !v.Digest.IsZero() {
		i["sha256"] = digestOf(v.Digest)
	}
	return i
}

func versionOf(i item) (versionlog.Version, error) {
	r := row{item: i}
	v := versionlog.Version{
		ID: r.text("id"), MemoryID: r.text("memory_id"), Parent: r.text("parent"), Seq: uint64(r.int("seq")),
		Op: versionlog.Op(r.text("op")), Path: r.text("path"), From: r.text("from"), Digest: r.digest("sha256"), Size: r.int("size"),
		Actor:   versionlog.Actor{Kind: versionlog.ActorKind(r.text("actor_kind")), ID: r.text("actor_id")},
		Session: r.text("session"), Time: r.time("time"), Message: r.text("message"),
		Spelling: r.text("spelling"),
	}
	if sort := r.text("sk"); v.Path == "" && isPath(sort) {
		v.Path = sort
	}
	return v, r.err
}

// commitsOf reads a LOG row, which is that of the last commit in it.
func commitsOf(i item) ([]*versionlog.Commit, error) {
	r := row{item: i}
	data := r.bytes("record")
	if r.err != nil {
		return nil, r.err
	}
	commits, err := decodeRecords(data)
	if err != nil {
		return nil, fmt.Errorf("row %s: %w", r.name(), err)
	}
	if last := commits[len(commits)-1]; sortOf(i) != logSort(last.Seq) || r.text("store_id") != last.StoreID {
		return nil, fmt.Errorf("row %s: %w: it holds commit %d of store %s", r.name(), versionlog.ErrCorrupt, last.Seq, last.StoreID)
	}
	return commits, nil
}

// logItem returns the LOG row of the commits up to last that share a
// transaction, and their records.
func logItem(storeID string, last uint64, records []byte) item {
	i := key(storeID, logSort(last))
	i["record"] = bytesOf(records)
	return i
}

func keyItem(c *versionlog.Commit) item {
	i := key(c.StoreID, keySort(c.Key))
	i["seq"], i["expires"] = number(c.Seq), number(c.Time.Add(keyLife).Unix())
	return i
}
