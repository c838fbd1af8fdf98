package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"mneme/backend"
	"mneme/internal/testing/awstest"
	"mneme/memory"
	"mneme/versionlog"
)

// tamperedRow is a row of a table as DynamoDB writes it: a type and a value by the attribute.
type tamperedRow map[string]map[string]any

func (r tamperedRow) key(name string) string { return fmt.Sprint(r[name]["S"]) }

func (r tamperedRow) isAt(other tamperedRow) bool {
	return r.key("store_id") == other.key("store_id") && r.key("sk") == other.key("sk")
}

// kind is what the sort key begins with, in capitals, or what the row is.
func (r tamperedRow) kind() string {
	partition, sort := r.key("store_id"), r.key("sk")
	switch {
	case partition == "STORES":
		return "STORES"
	case strings.HasPrefix(partition, "SLUG#"):
		return "SLUG"
	case strings.HasPrefix(sort, "/"):
		return "head"
	case strings.HasPrefix(sort, "-"):
		return "left"
	}
	kind, _, _ := strings.Cut(sort, "#")
	return kind
}

// tamperedPlace is a table and a bucket whose rows and objects are changed.
type tamperedPlace struct {
	t            *testing.T
	place, table string
	dir          string                   // of the bucket's objects, which are files
	rows         map[string][]tamperedRow // by kind
	earlier      []tamperedRow
	objects      map[string][]string // files by kind
	contents     map[string][]byte   // by file
	undo         func() error        // nil: nothing is changed
}

// newTamperedPlace makes two stores with everything that the table and the bucket hold of
// stores, but for snapshots, which take thousands of commits.
func newTamperedPlace(t *testing.T) *tamperedPlace {
	t.Helper()
	server := awstest.NewS3(t) // before there is another home, in which no servers are installed
	vars := awstest.EnvFor(server.Endpoint, awstest.DynamoDB(t))
	tamperedHome(t)
	for _, variable := range vars {
		name, value, _ := strings.Cut(variable, "=")
		t.Setenv(name, value)
	}
	bucket, table := awstest.Name("tamper"), awstest.Name("tamper")
	p := &tamperedPlace{t: t, place: "aws://" + bucket + "?table=" + table, table: table, dir: filepath.Join(server.Dir(), "s3", bucket)}
	location, err := backend.Locate(p.place)
	p.must(err)
	_, err = location.Setup.Run(t.Context(), &backend.SetupOptions{}, func(backend.SetupStep) {})
	p.must(err)
	p.fill(3)
	p.read()
	for _, rows := range p.rows {
		p.earlier = append(p.earlier, rows...)
	}
	p.fill(3)
	p.read()
	return p
}

func (p *tamperedPlace) must(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatal(err)
	}
}

func (p *tamperedPlace) url() string { return p.place }

// fill makes the stores, or goes on with them.
func (p *tamperedPlace) fill(commits int) {
	p.t.Helper()
	ctx := p.t.Context()
	author := &memory.Author{Actor: versionlog.Actor{Kind: versionlog.ActorUser, ID: "me"}, Session: "sesn_1"}
	lib, err := backend.Open(ctx, p.place, nil)
	p.must(err)
	for _, slug := range []string{"notes", "other"} {
		info, err := lib.FindStore(ctx, slug)
		if err != nil {
			info, err = lib.CreateStore(ctx, slug, &memory.StoreOptions{Actor: author.Actor, Description: "of " + slug, MaxMemoryBytes: 1 << 20, Metadata: map[string]string{"k": slug}})
			p.must(err)
		}
		st, err := lib.Open(ctx, info.ID, author)
		p.must(err)
		tip, err := st.Tip(ctx)
		p.must(err)
		for i := range commits {
			n := int(tip.Seq) + i
			_, err := st.Write(ctx, fmt.Sprintf("/d%d/%d.md", n%2, n%3), fmt.Appendf(nil, "%s %d\n", slug, n), versionlog.ExpectAny())
			p.must(err)
		}
		moves, moved := fmt.Sprintf("/moves/%d", tip.Seq), fmt.Sprintf("/moved/%d", tip.Seq)
		_, err = st.Write(ctx, moves, []byte("moves"), versionlog.ExpectAny())
		p.must(err)
		_, err = st.Rename(ctx, moves, moved, nil)
		p.must(err)
		_, err = st.Write(ctx, "/gone.md", fmt.Appendf(nil, "gone %d", tip.Seq), versionlog.ExpectAny())
		p.must(err)
		_, err = st.Remove(ctx, "/gone.md", versionlog.ExpectAny())
		p.must(err)
	}
	p.must(lib.Close()) // which writes what is owed behind the commits
}

// read reads all rows and objects.
func (p *tamperedPlace) read() {
	p.t.Helper()
	p.rows, p.objects, p.contents = map[string][]tamperedRow{}, map[string][]string{}, map[string][]byte{}
	var scanned struct{ Items []tamperedRow }
	p.must(json.Unmarshal([]byte(dynamoDB(p.t, "Scan", fmt.Sprintf(`{"TableName":%q,"ConsistentRead":true}`, p.table))), &scanned))
	for _, row := range scanned.Items {
		if row.kind() == "OUT" && row["paid"] != nil { // it may be there for a while, and is evidence of nothing
			continue
		}
		p.rows[row.kind()] = append(p.rows[row.kind()], row)
	}
	p.must(filepath.WalkDir(filepath.Join(p.dir, "stores"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		below, _ := filepath.Rel(filepath.Join(p.dir, "stores"), path)
		kind := strings.Split(below, "/")[1] // after the store's id
		p.objects[kind] = append(p.objects[kind], path)
		p.contents[path], err = os.ReadFile(path)
		return err
	}))
}

// kinds are all kinds of rows and objects.
func (p *tamperedPlace) kinds() (rows, objects []string) {
	return slices.Sorted(maps.Keys(p.rows)), slices.Sorted(maps.Keys(p.objects))
}

func (p *tamperedPlace) pick(r *rand.Rand) *tampering {
	rows, objects := p.kinds()
	n := r.IntN(len(rows) + len(objects))
	if n >= len(rows) {
		return p.pickObject(r, objects[n-len(rows)])
	}
	all := p.rows[rows[n]]
	row, second := all[r.IntN(len(all))], all[r.IntN(len(all))]
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(row)), func(name string) bool { return name == "store_id" || name == "sk" })
	if len(names) == 0 {
		return nil
	}
	name := names[r.IntN(len(names))]
	what := fmt.Sprintf("%s.%s: %s %s", rows[n], name, row.key("store_id"), row.key("sk"))
	other := maps.Clone(row)
	switch r.IntN(6) {
	default:
		verb, value := mutateAttribute(r, row[name])
		if verb == "" || reflect.DeepEqual(value, row[name]) {
			return nil
		}
		other[name] = value
		return p.change(verb+" "+what, row, other)
	case 3:
		if second[name] == nil || reflect.DeepEqual(second[name], row[name]) {
			return nil
		}
		other[name] = second[name]
		return p.change("swap "+what, row, other)
	case 4:
		if r.IntN(2) == 0 {
			return p.change("delete "+rows[n]+": "+what, row, nil)
		}
		if saysNothing(name, row[name]) {
			return nil
		}
		delete(other, name)
		return p.change("remove "+what, row, other)
	case 5:
		old := p.earlier[r.IntN(len(p.earlier))]
		if slices.ContainsFunc(p.rows[old.kind()], func(now tamperedRow) bool { return reflect.DeepEqual(now, old) }) {
			return nil
		}
		var now tamperedRow
		for _, one := range p.rows[old.kind()] {
			if one.isAt(old) {
				now = one
			}
		}
		return p.change("replay "+old.kind()+": "+old.key("sk"), now, old)
	}
}

// saysNothing reports whether an attribute is what one is taken for that is not there.
func saysNothing(name string, attribute map[string]any) bool {
	return reflect.DeepEqual(attribute, map[string]any{"N": "0"}) || reflect.DeepEqual(attribute, map[string]any{"S": ""}) ||
		reflect.DeepEqual(attribute, map[string]any{"BOOL": false}) || name == "epoch" && reflect.DeepEqual(attribute, map[string]any{"N": "1"})
}

// mutateAttribute is mutate for values that DynamoDB knows; "" where a value cannot be changed
// so.
func mutateAttribute(r *rand.Rand, attribute map[string]any) (verb string, other map[string]any) {
	for kind, value := range attribute {
		switch kind {
		case "S":
			verb, changed := mutate(r, []byte(value.(string)))
			return verb, map[string]any{kind: strings.ToValidUTF8(string(changed), "?")}
		case "B":
			data, _ := base64.StdEncoding.DecodeString(value.(string))
			verb, changed := mutate(r, data)
			return verb, map[string]any{kind: base64.StdEncoding.EncodeToString(changed)}
		case "N":
			n, _ := strconv.ParseInt(value.(string), 10, 64)
			return "flip", map[string]any{kind: strconv.FormatInt(n^1<<r.IntN(50), 10)}
		case "BOOL":
			return "flip", map[string]any{kind: !value.(bool)}
		case "M":
			return "extend", map[string]any{kind: map[string]any{"x": map[string]any{"S": "y"}}}
		}
	}
	return "", nil
}

// change puts a row in the place of another; nil is none.
func (p *tamperedPlace) change(what string, was, is tamperedRow) *tampering {
	put := func(row, instead tamperedRow) error {
		operation, body := "PutItem", map[string]any{"TableName": p.table, "Item": row}
		if row == nil {
			operation, body = "DeleteItem", map[string]any{"TableName": p.table, "Key": tamperedRow{"store_id": instead["store_id"], "sk": instead["sk"]}}
		}
		text, err := json.Marshal(body)
		if err == nil {
			dynamoDB(p.t, operation, string(text))
		}
		return err
	}
	return &tampering{what, func() error {
		p.undo = func() error { return put(was, is) }
		return put(is, was)
	}}
}

func (p *tamperedPlace) pickObject(r *rand.Rand, kind string) *tampering {
	path, second := p.objects[kind][r.IntN(len(p.objects[kind]))], p.objects[kind][r.IntN(len(p.objects[kind]))]
	data, verb := p.contents[path], ""
	switch r.IntN(5) {
	default:
		verb, data = mutate(r, data)
	case 3:
		verb, data = "replace", p.contents[second]
	case 4:
		verb, data = "delete", nil
	}
	if verb != "delete" && bytes.Equal(data, p.contents[path]) {
		return nil
	}
	return &tampering{verb + " object " + kind + ": " + path, func() error {
		p.undo = func() error { return os.WriteFile(path, p.contents[path], 0o600) }
		if verb == "delete" {
			return os.Remove(path)
		}
		return os.WriteFile(path, data, 0o600)
	}}
}

// isEvidence: without counted_seq the totals are not those of the newest commit, as a mneme
// leaves them that keeps none; then they are counted from the records.
func (p *tamperedPlace) isEvidence(what string) bool {
	return !strings.Contains(what, "META.counted_seq: ")
}

// isFound: a table whose FORMAT row is not right is opened by no command.
func (p *tamperedPlace) isFound(what string, code int) bool {
	return code == 7 || code == 1 && strings.Contains(what, "FORMAT")
}

func (p *tamperedPlace) restore() {
	p.t.Helper()
	if p.undo != nil {
		p.must(p.undo())
		p.undo = nil
	}
}

// TestTamperingsAWS changes what stores have in their table and their bucket.
func TestTamperingsAWS(t *testing.T) {
	p := newTamperedPlace(t)
	rows, objects := p.kinds()
	if want := []string{"FORMAT", "KEY", "LOG", "MEM", "META", "SLUG", "STORES", "head", "left"}; !slices.Equal(rows, want) {
		t.Errorf("there are rows of the kinds %q, want %q", rows, want)
	}
	if len(objects) < 3 {
		t.Errorf("there are objects of the kinds %q", objects)
	}
	findTamperings(t, p, tamperings(t, 25))
}
