package main

import (
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"mneme/internal/awssetup"
	"mneme/internal/testing/awstest"
	"mneme/internal/testing/skip"
)

// TestAWSPolicies: what `mneme setup --print` allows is enough for whom it is
// for, and a holder of one store's policy reaches nothing of another.
func TestAWSPolicies(t *testing.T) {
	t.Parallel()
	p := newAWSPlace(t)
	p.fill()
	p.must("", "setup", "--bucket-owner", awstest.AccessKey)
	id := func(store string) string {
		return regexp.MustCompile(`memstore_[0-9a-z]+`).FindString(p.must("", "store", "show", store, "--json"))
	}
	notes := names{awssetup.StoreIDPlaceholder: id("notes"), awssetup.SlugPlaceholder: "notes"}
	other := id("other")
	reads := [][]string{
		{"ls", "notes"}, {"cat", "notes:/dir/b.md"}, {"log", "notes"}, {"log", "notes:/dir/b.md"}, {"store", "show", "notes"}, {"fsck", "notes"},
		{"diff", "notes:/dir/b.md"}, {"cat", "notes:/dir/b.md"},
	}
	writes := [][]string{
		{"write", "notes:/new"}, {"mv", "notes:/new", "notes:/newer"}, {"rm", "notes:/newer"}, {"restore", "notes:/dir/b.md", "2"}, {"fsck", "notes", "--repair"},
	}
	administration := [][]string{{"store", "create", "more"}, {"store", "delete", "notes", "--yes"}}
	everywhere := [][]string{{"store", "list"}, {"status"}, {"fsck"}}
	for _, c := range []struct {
		policy           string
		allowed, refused [][]string
		othersOutOfReach bool
		writes           bool
	}{
		{policy: "read-only", allowed: slices.Concat(reads, everywhere), refused: slices.Concat(writes[:1], administration)},
		{policy: "read-write", allowed: slices.Concat(reads, writes, everywhere), refused: administration, writes: true},
		{policy: "admin", allowed: slices.Concat(reads, writes, everywhere, [][]string{
			{"store", "create", "third"}, {"store", "update", "third", "--description", "more"}, {"store", "archive", "third", "--yes"}, {"store", "delete", "third", "--yes"}, {"fsck", "notes", "--rebuild-index"},
		}), writes: true},
		{policy: "one store, read-only", allowed: reads, refused: slices.Concat(writes[:1], everywhere[:1], administration), othersOutOfReach: true},
		{policy: "one store, read-write", allowed: slices.Concat(reads, writes), refused: slices.Concat(everywhere[:1], administration), othersOutOfReach: true, writes: true},
	} {
		t.Run(c.policy, func(t *testing.T) {
			p := *p
			p.t = t
			at, g := p.guarded(c.policy, notes)
			at.home = t.TempDir() // with a cache of its own
			for _, args := range c.allowed {
				if e := at.mneme("text\n", args...); e.code != 0 {
					t.Errorf("mneme %s: exit code %d, %s", strings.Join(args, " "), e.code, e.stderr)
				}
			}
			t.Run("mount", func(t *testing.T) { at.useMount(t, g, c.writes) })
			for _, r := range g.refusals() {
				if !c.othersOutOfReach || !strings.Contains(r, "LeadingKeys:[STORES]") { // fsck does without
					t.Errorf("the policy refuses %s", r)
				}
			}
			refused := c.refused
			if c.othersOutOfReach {
				refused = append(refused, []string{"ls", "other"}, []string{"log", other}, []string{"cat", other + ":/x"}, []string{"write", other + ":/y"})
			}
			for _, args := range refused {
				if e := at.mneme("text\n", args...); e.code != 5 || !strings.Contains(e.stderr, "access denied") {
					t.Errorf("mneme %s: exit code %d, %s; want it denied", strings.Join(args, " "), e.code, e.stderr)
				}
			}
		})
	}
}

// TestAWSSetupPolicy: the policy for setup is enough to make everything, once and
// again, and to read no memory and no history.
func TestAWSSetupPolicy(t *testing.T) {
	t.Parallel()
	p := newAWSPlace(t)
	fresh := p.with(strings.ReplaceAll(p.url, "cmd-", "guarded-"))
	at, g := fresh.guarded("setup", nil)
	at.must("", "setup")
	at.must("", "setup")
	if refused := g.refusals(); len(refused) > 0 {
		t.Errorf("the policy refuses %q", refused)
	}
	fresh.must("", "store", "create", "notes")
	fresh.must("one\n", "write", "notes:/a.md")
	for _, args := range [][]string{{"cat", "notes:/a.md"}, {"log", "notes"}, {"ls", "notes"}} {
		if e := at.mneme("", args...); e.code != 5 || !strings.Contains(e.stderr, "access denied") {
			t.Errorf("mneme %v: exit code %d, %s%s", args, e.code, e.stdout, e.stderr)
		}
	}
	at.must("", "setup") // of a table with stores
}

// agentSession is what an agent does in a mount: new files, changes, appends, saves
// by renaming, directories, and what it removes.
const agentSession = `set -e
cd "$1/notes"
mkdir -p work/deep
echo one >work/deep/a; echo two >>work/deep/a; cat work/deep/a
echo one >work/b; cp work/b work/c; sed -i s/one/two/ work/b
echo three >work/.b.tmp; mv work/.b.tmp work/b
mv work/deep moved; grep -r two . >/dev/null
rm work/c; rm -r moved; ls -R >/dev/null
`

// useMount mounts notes, works there where that is allowed, and unmounts. All
// requests of that are judged by the guard.
func (p *awsPlace) useMount(t *testing.T, g *guard, writes bool) {
	if _, err := os.Stat("/dev/fuse"); err != nil {
		skip.Because(t, "there is no /dev/fuse")
	}
	g.mu.Lock()
	g.allowed = map[string]bool{}
	g.mu.Unlock()
	dir, store := p.home+"/memory", "notes:ro"
	if writes {
		store = "notes"
	}
	p.must("", "mount", store, "--background", "--at", dir)
	script := `cat "$1/notes/dir/b.md"`
	if writes {
		script = agentSession
	}
	cmd := exec.Command("sh", "-c", script, "sh", dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("in the mount: %v, %s", err, out)
	}
	p.must("", "unmount", "--at", dir)
	g.mu.Lock()
	defer g.mu.Unlock()
	want := []string{"dynamodb:GetItem", "s3:ListBucket"}
	if writes {
		want = []string{
			"dynamodb:BatchWriteItem", "dynamodb:DeleteItem", "dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:Query", "dynamodb:UpdateItem",
			"s3:ListBucket", "s3:PutObject",
		}
	}
	for _, action := range want {
		if !g.allowed[action] {
			t.Errorf("the mount did without %s, which the policy allows", action)
		}
	}
	if g.allowed["s3:DeleteObject"] {
		t.Error("the mount has deleted an object")
	}
}

// TestAWSAppendOnly: what a stolen key of a mount cannot do.
func TestAWSAppendOnly(t *testing.T) {
	t.Parallel()
	p := &awsPlace{t: t, url: "aws://bucket?table=table"}
	const table, store = "arn:aws:dynamodb:us-east-1:123456789012:table/table", "memstore_1"
	object := func(action, key string, keys map[string][]string) wanted {
		return wanted{"s3:" + action, "arn:aws:s3:::bucket/" + key, keys}
	}
	row := func(action, partition, enclosing string) wanted {
		keys := map[string][]string{"dynamodb:LeadingKeys": {partition}}
		if enclosing != "" {
			keys["dynamodb:EnclosingOperation"] = []string{enclosing}
		}
		return wanted{"dynamodb:" + action, table, keys}
	}
	ifAbsent := map[string][]string{"s3:if-none-match": {"*"}}
	const transaction = "TransactWriteItems"
	for _, policy := range []string{"read-write", "one store, read-write"} {
		document := p.policyNamed(policy, names{awssetup.StoreIDPlaceholder: store, awssetup.SlugPlaceholder: "notes"})
		for _, w := range []wanted{
			object("PutObject", "stores/memstore_1/blobs/00/00", nil),
			object("PutObject", "stores/memstore_1/log/00000000000000000001", nil),
			object("PutObject", "stores/memstore_1/store.json", map[string][]string{"s3:if-match": {"etag"}}),
			object("PutObject", "elsewhere", ifAbsent),
			object("DeleteObject", "stores/memstore_1/log/00000000000000000001", nil),
			object("DeleteObjectVersion", "stores/memstore_1/log/00000000000000000001", nil),
			object("PutBucketVersioning", "", nil),
			row("PutItem", store, ""), row("UpdateItem", store, ""), row("DeleteItem", store, ""),
			row("PutItem", "SLUG#notes", transaction), row("DeleteItem", "STORES", transaction), row("PutItem", "FORMAT", transaction),
			row("BatchWriteItem", "FORMAT", ""), row("DeleteTable", store, ""), row("UpdateTable", store, ""),
		} {
			if allows(document, w) {
				t.Errorf("%s allows %+v", policy, w)
			}
		}
		for _, w := range []wanted{object("PutObject", "stores/memstore_1/blobs/00/00", ifAbsent), row("PutItem", store, transaction)} {
			if !allows(document, w) {
				t.Errorf("%s refuses %+v", policy, w)
			}
		}
		others := []wanted{object("PutObject", "stores/memstore_2/log/1", ifAbsent), row("PutItem", "memstore_2", transaction), row("GetItem", "memstore_2", "")}
		for _, w := range others {
			if allows(document, w) != (policy == "read-write") {
				t.Errorf("%s on another store: %+v", policy, w)
			}
		}
	}
}
