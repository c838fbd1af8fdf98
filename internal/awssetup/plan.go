package awssetup

import (
	"fmt"
	"slices"
	"strings"
)

// Plan says what Run would make, as commands, and which permissions whom lets
// do what, as IAM policies.
type Plan struct {
	Policies []NamedPolicy `json:"policies"`
	Commands []string      `json:"commands"`
}

// NamedPolicy is a policy and whom it is for.
type NamedPolicy struct {
	Name   string `json:"name"`
	For    string `json:"for"`
	Policy Policy `json:"policy"`
}

// Policy is an IAM policy document.
type Policy struct {
	Version   string
	Statement []Statement
}

// Statement is a part of a policy. All of mneme's allow.
type Statement struct {
	Sid       string
	Effect    string
	Action    []string
	Resource  []string
	Condition map[string]map[string][]string `json:",omitempty"`
}

// The placeholders of the policies for one store.
const (
	StoreIDPlaceholder = "STORE_ID"
	SlugPlaceholder    = "STORE_SLUG"
)

// anyRegion is the region in an ARN if none was given.
const anyRegion = "*"

// NewPlan returns the plan for a bucket and a table. With an empty region the
// policies hold in every region and the commands leave it to the environment.
// With an empty owner the bucket belongs to the account of the caller.
func NewPlan(bucket, table, region, owner string) *Plan {
	arns := arns{bucket: bucket, table: table, region: region}
	if region == "" {
		arns.region = anyRegion
	}
	return &Plan{
		Policies: []NamedPolicy{
			{"setup", "the person who sets it up, once", policy(arns.setup()...)},
			{"admin", "people who create, archive and delete stores, repair blobs and rebuild the index", policy(arns.admin()...)},
			{"redact", "a person who redacts, or collects what stores let go of, for as long as that takes: it can delete what the bucket keeps of objects that were replaced or deleted", policy(arns.redact()...)},
			{"read-write", "mounts and people that read and write every store: they can add objects to the bucket, and neither replace nor delete one", policy(arns.readWrite()...)},
			{"read-only", "mounts with :ro or --read-only, of every store", policy(arns.readOnly()...)},
			{"one store, read-write", "a mount of one store, which cannot see another's bytes or rows", policy(arns.storeReadWrite()...)},
			{"one store, read-only", "a read-only mount of one store", policy(arns.storeReadOnly()...)},
		},
		Commands: commands(bucket, table, region, owner),
	}
}

func policy(statements ...Statement) Policy {
	return Policy{Version: "2012-10-17", Statement: statements}
}

// Which requests mneme sends. A transaction counts as the writes in it.
var (
	readRows   = []string{"dynamodb:GetItem", "dynamodb:BatchGetItem", "dynamodb:Query"}
	commitRows = []string{"dynamodb:PutItem", "dynamodb:UpdateItem", "dynamodb:DeleteItem"} // in transactions
	behindRows = []string{"dynamodb:BatchWriteItem"}
	readKeys   = []string{"s3:GetObject"}
	addKeys    = []string{"s3:PutObject"}
	deleteKeys = []string{"s3:DeleteObject"}
	deleteOld  = []string{"s3:GetObjectVersion", "s3:DeleteObjectVersion"}
)

type arns struct{ bucket, table, region string }

func (a arns) ofTable() []string {
	return []string{fmt.Sprintf("arn:aws:dynamodb:%s:*:table/%s", a.region, a.table)}
}
func (a arns) ofBucket() []string { return []string{"arn:aws:s3:::" + a.bucket} }
func (a arns) ofKeys(prefix string) []string {
	return []string{"arn:aws:s3:::" + a.bucket + "/" + prefix + "*"}
}

func allow(sid string, actions, resources []string) Statement {
	return Statement{Sid: sid, Effect: "Allow", Action: actions, Resource: resources}
}

// when adds a condition. All of a statement must hold.
func (s Statement) when(operator, key string, values ...string) Statement {
	conditions := map[string]map[string][]string{operator: {key: values}}
	for o, c := range s.Condition {
		conditions[o] = c
	}
	s.Condition = conditions
	return s
}

func (a arns) setup() []Statement {
	return []Statement{
		allow("Bucket", []string{"s3:CreateBucket", "s3:ListBucket", "s3:GetBucketPublicAccessBlock", "s3:PutBucketPublicAccessBlock",
			"s3:GetBucketVersioning", "s3:PutBucketVersioning", "s3:GetLifecycleConfiguration", "s3:PutLifecycleConfiguration"}, a.ofBucket()),
		allow("Table", []string{
			"dynamodb:CreateTable", "dynamodb:DescribeTable", "dynamodb:UpdateTable", "dynamodb:DescribeTimeToLive", "dynamodb:UpdateTimeToLive",
			"dynamodb:DescribeContinuousBackups", "dynamodb:UpdateContinuousBackups",
		}, a.ofTable()),
		allow("Format", []string{"dynamodb:GetItem", "dynamodb:PutItem"}, a.ofTable()).when(leadingOperator, leadingKeys, "FORMAT"),
		allow("Stores", []string{"dynamodb:Query"}, a.ofTable()).when(leadingOperator, leadingKeys, "STORES"),
	}
}

func (a arns) admin() []Statement {
	return []Statement{
		allow("Rows", slices.Concat(readRows, commitRows, behindRows), a.ofTable()),
		allow("Objects", slices.Concat(readKeys, addKeys, deleteKeys), a.ofKeys("stores/")),
		allow("Keys", []string{"s3:ListBucket"}, a.ofBucket()),
	}
}

// redact is admin and what it takes to remove old versions of objects.
func (a arns) redact() []Statement {
	return append(a.admin(),
		allow("Old", deleteOld, a.ofKeys("stores/")),
		allow("OldKeys", []string{"s3:ListBucketVersions"}, a.ofBucket()))
}

// readWrite is readOnly and what a commit to any store takes.
func (a arns) readWrite() []Statement {
	return append(a.readOnly(), a.add("stores/", "ForAllValues:StringLike", "memstore_*")...)
}

func (a arns) readOnly() []Statement {
	return []Statement{
		allow("Rows", readRows, a.ofTable()),
		allow("Objects", readKeys, a.ofKeys("stores/")),
		allow("Keys", []string{"s3:ListBucket"}, a.ofBucket()),
	}
}

const (
	leadingKeys, leadingOperator = "dynamodb:LeadingKeys", "ForAllValues:StringEquals"

	enclosing, enclosingOperator = "dynamodb:EnclosingOperation", "ForAnyValue:StringEquals"
)

// add allows the requests of a commit: writing rows of the store's partition, within
// transactions and, after them, in batches; and adding objects under unused keys. It does
// not allow replacing or deleting objects in the bucket. It cannot protect the rows, which
// follow from those: heads come and go, and IAM has no condition on sort keys.
func (a arns) add(prefix, operator, partition string) []Statement {
	return []Statement{
		allow("Commit", commitRows, a.ofTable()).when(operator, leadingKeys, partition).when(enclosingOperator, enclosing, "TransactWriteItems"),
		allow("Behind", behindRows, a.ofTable()).when(operator, leadingKeys, partition),
		allow("Add", addKeys, a.ofKeys(prefix)).when("Null", "s3:if-none-match", "false"),
	}
}

func (a arns) storeReadWrite() []Statement {
	return append(a.storeReadOnly(), a.add("stores/"+StoreIDPlaceholder+"/", leadingOperator, StoreIDPlaceholder)...)
}

// storeReadOnly allows the store's own partition, and of all others the two
// that a name is looked up in. Listing keys is allowed below the store's prefix
// only, so that a missing blob shows as denied rather than as missing.
func (a arns) storeReadOnly() []Statement {
	prefix := "stores/" + StoreIDPlaceholder + "/"
	return []Statement{
		allow("Rows", readRows, a.ofTable()).when(leadingOperator, leadingKeys, StoreIDPlaceholder),
		allow("Lookup", readRows, a.ofTable()).when(leadingOperator, leadingKeys, "FORMAT", "SLUG#"+SlugPlaceholder),
		allow("Objects", readKeys, a.ofKeys(prefix)),
		allow("Keys", []string{"s3:ListBucket"}, a.ofBucket()).when("StringLike", "s3:prefix", prefix+"*"),
	}
}

// commands returns what does the same as Run with the AWS command line. The
// format row is mneme's own, so `mneme setup` comes last in any case.
func commands(bucket, table, region, owner string) []string {
	flag, location := "", ""
	if region != "" {
		flag = " --region " + region
		if region != defaultRegion {
			location = " --create-bucket-configuration LocationConstraint=" + region
		}
	}
	return []string{
		"aws s3api create-bucket --bucket " + bucket + location + flag,
		blockCommand(bucket, flag),
		lifecycleCommand(bucket, flag),
		versioningCommand(bucket, flag),
		"aws dynamodb create-table --table-name " + table + " --billing-mode PAY_PER_REQUEST" +
			" --attribute-definitions AttributeName=" + PartitionKey + ",AttributeType=S AttributeName=" + SortKey + ",AttributeType=S" +
			" --key-schema AttributeName=" + PartitionKey + ",KeyType=HASH AttributeName=" + SortKey + ",KeyType=RANGE" + flag,
		"aws dynamodb wait table-exists --table-name " + table + flag,
		"aws dynamodb update-time-to-live --table-name " + table + " --time-to-live-specification Enabled=true,AttributeName=" + TTLAttribute + flag,
		"aws dynamodb update-continuous-backups --table-name " + table +
			" --point-in-time-recovery-specification PointInTimeRecoveryEnabled=true" + flag,
		"aws dynamodb update-table --table-name " + table + " --deletion-protection-enabled" + flag,
		"aws dynamodb put-item --table-name " + table + " --condition-expression 'attribute_not_exists(" + PartitionKey + ")'" +
			" --item '" + formatItem(bucket, owner) + "'" + flag,
	}
}

// formatItem is the row that says whose table it is, as dynamolog writes it,
// between the quotes of a shell.
func formatItem(bucket, owner string) string {
	if owner == "" {
		owner = `'"$(aws sts get-caller-identity --query Account --output text)"'`
	}
	return `{"store_id":{"S":"FORMAT"},"sk":{"S":"FORMAT"},"format":{"N":"2"},"bucket":{"S":"` + bucket + `"},"bucket_owner":{"S":"` + owner + `"}}`
}

func blockCommand(bucket, flag string) string {
	settings := []string{"BlockPublicAcls=true", "IgnorePublicAcls=true", "BlockPublicPolicy=true", "RestrictPublicBuckets=true"}
	return "aws s3api put-public-access-block --bucket " + bucket +
		" --public-access-block-configuration " + strings.Join(settings, ",") + flag
}
