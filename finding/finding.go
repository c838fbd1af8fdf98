// Package finding lists what a check of stores can find: every finding is of a kind from
// one closed list, which says whether it can be repaired without a backup.
package finding

// Kind is a kind of finding. Its text is stable: it is what programs see.
type Kind string

// The kinds that any store can have: its records, what is current by them, contents, and
// what was noted of the history elsewhere.
const (
	RecordUnreadable Kind = "record-unreadable" // it is missing, or its digests do not hold
	RecordErased     Kind = "record-erased"     // a version was erased, and no event says so
	RecordChain      Kind = "record-chain"      // it does not follow the record before
	RecordEpoch      Kind = "record-epoch"      // its epoch cannot follow
	RecordVersions   Kind = "record-versions"   // its versions cannot follow
	RecordTip        Kind = "record-tip"        // the index names another one as the newest
	Head             Kind = "head"              // the index has another head than the records
	BlobMissing      Kind = "blob-missing"
	BlobDamaged      Kind = "blob-damaged"
	BlobBase         Kind = "blob-base" // it is kept against one that is damaged
	History          Kind = "history"   // it has not the commit that was noted
	LossSeen         Kind = "loss-seen" // this machine has seen what is not there, or is another now
	LossIndex        Kind = "loss-index"
)

// The kinds of embedded stores.
const (
	Loss            Kind = "loss" // what was acknowledged is not in the database
	StoreTotals     Kind = "store-totals"
	StoreRow        Kind = "store-row"
	CommitRow       Kind = "commit-row"
	CommitText      Kind = "commit-text" // the record's text is not the commit's
	VersionRow      Kind = "version-row"
	PathRow         Kind = "path-row"
	RowOutside      Kind = "row-outside"     // of the history
	RecordFrame     Kind = "record-frame"    // packed records that are not those that lack
	PackedPlace     Kind = "packed-place"    // in no tree
	PackedContent   Kind = "packed-content"  // it does not decode
	PackedProgress  Kind = "packed-progress" // it is outside the history
	FileLeft        Kind = "file-left"       // a file is marked for removal, but needed
	BlobUnneeded    Kind = "blob-unneeded"   // damaged, and of no version
	FileUnneeded    Kind = "file-unneeded"   // damaged, and not the only place
	SchemaForeign   Kind = "schema-foreign"
	SchemaOther     Kind = "schema-other"
	SchemaMissing   Kind = "schema-missing"
	SQLiteIndex     Kind = "sqlite-index" // it has not what the table has
	BlobIndex       Kind = "blob-index"
	BlobKey         Kind = "blob-key"
	RowsOfNoStore   Kind = "rows-of-no-store"
	RowsOfGoneStore Kind = "rows-of-gone-store"
	StoreNumbers    Kind = "store-numbers"
	StoreSlug       Kind = "store-slug" // it has none, so that no list has the store
)

// The kinds of stores in S3 and DynamoDB.
const (
	BucketMissing     Kind = "bucket-missing"     // a record
	BucketLate        Kind = "bucket-late"        // a record that is still to be put
	BucketPaid        Kind = "bucket-paid"        // a record that is there, and counts as still to be put
	BucketBeyond      Kind = "bucket-beyond"      // a record behind the newest commit
	BucketDamaged     Kind = "bucket-damaged"     // records
	BucketText        Kind = "bucket-text"        // records that are not the text of their commits
	BucketDescription Kind = "bucket-description" // store.json is not what the table says
	BucketSnapshot    Kind = "bucket-snapshot"    // it is not what follows from the records
	BucketErased      Kind = "bucket-erased"      // it has what was erased
	TableName         Kind = "table-name"         // a row by which the store is found
	TableTip          Kind = "table-tip"
	TableTotals       Kind = "table-totals"
	TableDescription  Kind = "table-description"
	TableMissing      Kind = "table-missing" // a row
	TableLate         Kind = "table-late"    // a row that is still to be put
	TableExtra        Kind = "table-extra"   // a row that follows from no record
	TableOther        Kind = "table-other"   // a row that is not what follows
)

// Repair is what can be done about a finding without a backup.
type Repair int

// The repairs. Each of them only brings back what digests prove, or what follows from
// records that they prove.
const (
	None    Repair = iota // what was there is known nowhere else
	Cache                 // bytes with the right SHA-256, from the cache of this machine
	Rebuild               // rows from records, and records from the other of two places, by their digests
	Itself                // the next process that writes does it
	Accept                // a person says that it is meant
	Redact                // a person redacts the versions once more, with credentials that may delete
)

// Info is what there is to know about a kind.
type Info struct {
	Kind     Kind
	Embedded Repair // of embedded stores; -1: they have no such finding
	AWS      Repair // of stores in S3 and DynamoDB; -1: they have no such finding
}

const never Repair = -1

// all are the kinds, in the order above.
var all = []Info{
	{RecordUnreadable, None, Rebuild}, {RecordErased, None, None}, {RecordChain, None, None}, {RecordEpoch, None, None},
	{RecordVersions, None, None}, {RecordTip, None, Rebuild}, {Head, None, Rebuild},
	{BlobMissing, None, Cache}, {BlobDamaged, None, Cache}, {BlobBase, None, never}, {History, None, None},
	{LossSeen, Accept, Accept}, {LossIndex, never, Rebuild},

	{Loss, Accept, never}, {StoreTotals, None, never}, {StoreRow, None, never}, {CommitRow, None, never}, {CommitText, None, never},
	{VersionRow, None, never}, {PathRow, None, never}, {RowOutside, None, never}, {RecordFrame, None, never}, {PackedPlace, None, never},
	{PackedContent, None, never}, {PackedProgress, None, never}, {FileLeft, None, never}, {BlobUnneeded, Itself, never},
	{FileUnneeded, None, never}, {SchemaForeign, None, never}, {SchemaOther, None, never}, {SchemaMissing, None, never},
	{SQLiteIndex, None, never}, {BlobIndex, None, never}, {BlobKey, None, never}, {RowsOfNoStore, None, never},
	{RowsOfGoneStore, Itself, never}, {StoreNumbers, None, never}, {StoreSlug, None, never},

	{BucketMissing, never, Rebuild}, {BucketLate, never, Itself}, {BucketPaid, never, Itself}, {BucketBeyond, never, Rebuild},
	{BucketDamaged, never, Rebuild}, {BucketText, never, Rebuild}, {BucketDescription, never, Rebuild}, {BucketSnapshot, never, Rebuild}, {BucketErased, never, Redact}, {TableName, never, Rebuild},
	{TableTip, never, Rebuild}, {TableTotals, never, Rebuild}, {TableDescription, never, Rebuild}, {TableMissing, never, Rebuild},
	{TableLate, never, Itself}, {TableExtra, never, Rebuild}, {TableOther, never, Rebuild},
}

// All returns every kind.
func All() []Info { return append([]Info(nil), all...) }
