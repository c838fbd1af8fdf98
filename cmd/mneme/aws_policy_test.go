package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"mneme/internal/awssetup"
	"mneme/internal/awstest"
	"mneme/internal/skip"
)

// guard stands before the servers and lets through what a policy allows, as IAM
// would.
type guard struct {
	policy awssetup.Policy
	table  string

	mu      sync.Mutex // guards refused
	refused []string
}

// wanted is one permission that a request takes.
type wanted struct {
	action, resource string
	keys             []string // leading keys
	prefix           string   // of a listing
}

// names is what is put in place of the placeholders of a policy.
type names map[string]string

func (n names) fill(text string) string {
	for placeholder, value := range n {
		text = strings.ReplaceAll(text, placeholder, value)
	}
	return text
}

// newGuard returns a place whose requests must satisfy the named policy.
func (p *awsPlace) guarded(policy string, filled names) (*awsPlace, *guard) {
	p.t.Helper()
	bucket, table, _ := strings.Cut(strings.TrimPrefix(p.url, "aws://"), "?table=")
	plan := awssetup.NewPlan(bucket, table, awstest.Region, "")
	i := slices.IndexFunc(plan.Policies, func(n awssetup.NamedPolicy) bool { return n.Name == policy })
	text, err := json.Marshal(plan.Policies[i].Policy)
	if err != nil {
		p.t.Fatal(err)
	}
	g := &guard{table: table}
	if err := json.Unmarshal([]byte(filled.fill(string(text))), &g.policy); err != nil {
		p.t.Fatal(err)
	}
	s3, dynamo := g.proxy(p.t, awstest.S3(p.t), g.s3Wants, denyS3), g.proxy(p.t, awstest.DynamoDB(p.t), g.dynamoWants, denyDynamoDB)
	return p.with("", "AWS_ENDPOINT_URL_S3="+s3, "AWS_ENDPOINT_URL_DYNAMODB="+dynamo), g
}

func (g *guard) proxy(t *testing.T, to string, wants func(*http.Request, []byte) []wanted, deny func(http.ResponseWriter)) string {
	target, err := url.Parse(to)
	if err != nil {
		t.Fatal(err)
	}
	forward := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		r.Out.Host = r.In.Host // it is signed
	}}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		for _, want := range wants(r, body) {
			if !g.allows(want) {
				g.mu.Lock()
				g.refused = append(g.refused, fmt.Sprintf("%+v", want))
				g.mu.Unlock()
				deny(w)
				return
			}
		}
		forward.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

func denyS3(w http.ResponseWriter) {
	w.WriteHeader(http.StatusForbidden)
	_, _ = io.WriteString(w, `<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>`)
}

func denyDynamoDB(w http.ResponseWriter) {
	w.WriteHeader(http.StatusBadRequest)
	_, _ = io.WriteString(w, `{"__type":"com.amazon.coral.service#AccessDeniedException","message":"not authorized"}`)
}

func (g *guard) s3Wants(r *http.Request, _ []byte) []wanted {
	bucket, key, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	if key == "" {
		return []wanted{{action: "s3:ListBucket", resource: "arn:aws:s3:::" + bucket, prefix: r.URL.Query().Get("prefix")}}
	}
	action := map[string]string{
		http.MethodGet: "s3:GetObject", http.MethodHead: "s3:GetObject", http.MethodPut: "s3:PutObject", http.MethodDelete: "s3:DeleteObject",
	}[r.Method]
	return []wanted{{action: action, resource: "arn:aws:s3:::" + bucket + "/" + key}}
}

// partition finds the partition keys in a request: in keys and items, and as
// the first value of a query's condition.
var partition = regexp.MustCompile(`"(?:store_id|:p|:partition|:store)":\{"S":"((?:[^"\\]|\\.)*)"\}`)

func (g *guard) dynamoWants(r *http.Request, body []byte) []wanted {
	_, operation, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	actions := []string{operation}
	if operation == "TransactWriteItems" {
		actions = nil
		for part, action := range map[string]string{`"Put":`: "PutItem", `"Update":`: "UpdateItem", `"Delete":`: "DeleteItem", `"ConditionCheck":`: "ConditionCheckItem"} {
			if bytes.Contains(body, []byte(part)) {
				actions = append(actions, action)
			}
		}
	}
	var keys []string
	for _, m := range partition.FindAllSubmatch(body, -1) {
		keys = append(keys, string(m[1]))
	}
	if len(keys) == 0 {
		keys = []string{"(none found)"}
	}
	var all []wanted
	for _, action := range actions {
		all = append(all, wanted{
			action: "dynamodb:" + action, keys: keys,
			resource: fmt.Sprintf("arn:aws:dynamodb:%s:123456789012:table/%s", awstest.Region, g.table),
		})
	}
	return all
}

// allows reports whether one statement of the policy allows it all.
func (g *guard) allows(w wanted) bool {
	return slices.ContainsFunc(g.policy.Statement, func(s awssetup.Statement) bool {
		matches := func(pattern string) bool {
			ok, err := path.Match(strings.ReplaceAll(pattern, "/", "\x00"), strings.ReplaceAll(w.resource, "/", "\x00"))
			return err == nil && ok
		}
		if !slices.Contains(s.Action, w.action) || !slices.ContainsFunc(s.Resource, matches) {
			return false
		}
		for _, conditions := range s.Condition {
			for key, values := range conditions {
				switch key {
				case "dynamodb:LeadingKeys":
					if slices.ContainsFunc(w.keys, func(k string) bool { return !slices.Contains(values, k) }) {
						return false
					}
				case "s3:prefix":
					if !strings.HasPrefix(w.prefix, strings.TrimSuffix(values[0], "*")) {
						return false
					}
				}
			}
		}
		return true
	})
}

// TestAWSPolicies: what `mneme setup --print` allows is enough for whom it is
// for, and a holder of one store's policy reaches nothing of another.
func TestAWSPolicies(t *testing.T) {
	t.Parallel()
	p := newAWSPlace(t)
	p.fill()
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
		{"write", "notes:/new"}, {"mv", "notes:/new", "notes:/newer"}, {"rm", "notes:/newer"}, {"restore", "notes:/dir/b.md", "1"}, {"fsck", "notes", "--repair"},
	}
	everywhere := [][]string{{"store", "list"}, {"status"}, {"fsck"}}
	for _, c := range []struct {
		policy           string
		allowed, refused [][]string
		othersOutOfReach bool
	}{
		{policy: "read-only", allowed: slices.Concat(reads, everywhere), refused: writes[:1]},
		{policy: "read-write", allowed: slices.Concat(reads, writes, everywhere, [][]string{{"store", "create", "third"}, {"store", "archive", "third", "--yes"}, {"store", "delete", "third", "--yes"}})},
		{policy: "one store, read-only", allowed: reads, refused: slices.Concat(writes[:1], everywhere[:1]), othersOutOfReach: true},
		{policy: "one store, read-write", allowed: slices.Concat(reads, writes), refused: everywhere[:1], othersOutOfReach: true},
	} {
		t.Run(c.policy, func(t *testing.T) {
			at, g := p.guarded(c.policy, notes)
			at.t, at.home = t, t.TempDir() // with a cache of its own
			for _, args := range c.allowed {
				if e := at.mneme("text\n", args...); e.code != 0 {
					t.Errorf("mneme %s: exit code %d, %s", strings.Join(args, " "), e.code, e.stderr)
				}
			}
			t.Run("mount", func(t *testing.T) {
				if _, err := os.Stat("/dev/fuse"); err != nil {
					skip.Because(t, "there is no /dev/fuse")
				}
				for _, args := range [][]string{{"mount", "notes:ro", "--background"}, {"unmount"}} {
					if e := at.mneme("", append(args, "--at", at.home+"/memory")...); e.code != 0 {
						t.Errorf("mneme %s: exit code %d, %s", args[0], e.code, e.stderr)
					}
				}
			})
			for _, r := range g.refused {
				if !c.othersOutOfReach || !strings.Contains(r, "keys:[STORES]") { // fsck does without
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
