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
	"path"
	"slices"
	"strings"
	"sync"
	"testing"

	"mneme/internal/awssetup"
	"mneme/internal/testing/awstest"
)

// guard stands before the servers and lets through what a policy allows, as IAM
// would. Requests to the bucket must name its owner besides.
type guard struct {
	policy awssetup.Policy
	table  string
	owner  string // of the bucket, which every request to it must name

	mu      sync.Mutex // guards what follows
	refused []string
	allowed map[string]bool // actions
}

// wanted is one permission that a request takes: an action, the resource, and
// the condition keys that the request has.
type wanted struct {
	action, resource string
	keys             map[string][]string
}

// names is what is put in place of the placeholders of a policy.
type names map[string]string

func (n names) fill(text string) string {
	for placeholder, value := range n {
		text = strings.ReplaceAll(text, placeholder, value)
	}
	return text
}

// policyNamed returns a policy for the place.
func (p *awsPlace) policyNamed(name string, filled names) awssetup.Policy {
	p.t.Helper()
	bucket, table, _ := strings.Cut(strings.TrimPrefix(p.url, "aws://"), "?table=")
	plan := awssetup.NewPlan(bucket, table, awstest.Region, "")
	i := slices.IndexFunc(plan.Policies, func(n awssetup.NamedPolicy) bool { return n.Name == name })
	text, err := json.Marshal(plan.Policies[i].Policy)
	if err != nil {
		p.t.Fatal(err)
	}
	var policy awssetup.Policy
	if err := json.Unmarshal([]byte(filled.fill(string(text))), &policy); err != nil {
		p.t.Fatal(err)
	}
	return policy
}

// guarded returns a place whose requests must satisfy the named policy.
func (p *awsPlace) guarded(policy string, filled names) (*awsPlace, *guard) {
	p.t.Helper()
	_, table, _ := strings.Cut(p.url, "?table=")
	g := &guard{policy: p.policyNamed(policy, filled), table: table, allowed: map[string]bool{}}
	if policy != "setup" { // before which it is not known
		g.owner = awstest.AccessKey
	}
	s3, dynamo := g.proxy(p.t, awstest.S3(p.t), g.s3Wants, denyS3), g.proxy(p.t, awstest.DynamoDB(p.t), g.dynamoWants, denyDynamoDB)
	return p.with("", "AWS_ENDPOINT_URL_S3="+s3, "AWS_ENDPOINT_URL_DYNAMODB="+dynamo), g
}

func (g *guard) proxy(t *testing.T, to string, wants func(*http.Request, []byte) ([]wanted, error), deny func(http.ResponseWriter)) string {
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
		all, err := wants(r, body)
		if err != nil {
			t.Errorf("%s %s %s: %v", r.Method, r.URL, body, err)
		}
		for _, want := range all {
			if !g.judge(want) {
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

// ofBucket are the permissions that requests of a bucket's settings take, by
// method and query.
var ofBucket = map[string]string{
	"PUT ":                  "s3:CreateBucket",
	"GET publicAccessBlock": "s3:GetBucketPublicAccessBlock", "PUT publicAccessBlock": "s3:PutBucketPublicAccessBlock",
	"GET versioning": "s3:GetBucketVersioning", "PUT versioning": "s3:PutBucketVersioning",
	"GET lifecycle": "s3:GetLifecycleConfiguration", "PUT lifecycle": "s3:PutLifecycleConfiguration",
}

func (g *guard) s3Wants(r *http.Request, _ []byte) ([]wanted, error) {
	bucket, key, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	query, _, _ := strings.Cut(r.URL.RawQuery, "=")
	action, isSetting := ofBucket[r.Method+" "+query]
	if g.owner != "" && action != "s3:CreateBucket" && r.Header.Get("X-Amz-Expected-Bucket-Owner") != g.owner {
		return nil, fmt.Errorf("it does not name the owner of the bucket")
	}
	switch {
	case key == "" && isSetting:
		return []wanted{{action, "arn:aws:s3:::" + bucket, nil}}, nil
	case key == "":
		action := "s3:ListBucket"
		if r.URL.Query().Has("versions") {
			action = "s3:ListBucketVersions"
		}
		return []wanted{{action, "arn:aws:s3:::" + bucket, map[string][]string{"s3:prefix": {r.URL.Query().Get("prefix")}}}}, nil
	}
	action = map[string]string{
		http.MethodGet: "s3:GetObject", http.MethodHead: "s3:GetObject", http.MethodPut: "s3:PutObject", http.MethodDelete: "s3:DeleteObject",
	}[r.Method]
	if r.URL.Query().Has("versionId") {
		action += "Version"
	}
	keys := map[string][]string{}
	if condition := r.Header.Get("If-None-Match"); condition != "" {
		keys["s3:if-none-match"] = []string{condition}
	}
	return []wanted{{action, "arn:aws:s3:::" + bucket + "/" + key, keys}}, nil
}

// rowRequest is what of a request to DynamoDB, or of a part of one, tells which
// rows it is about.
type rowRequest struct {
	Key, Item                 map[string]map[string]any
	ExpressionAttributeValues map[string]map[string]any
	Keys                      []map[string]map[string]any // of a BatchGetItem
}

// partitions returns the partition keys.
func (r rowRequest) partitions() []string {
	var all []string
	for _, row := range append(r.Keys, r.Key, r.Item) {
		if key, ok := row["store_id"]["S"].(string); ok {
			all = append(all, key)
		}
	}
	if key, ok := r.ExpressionAttributeValues[":p"]["S"].(string); ok && len(all) == 0 { // of a Query
		all = append(all, key)
	}
	return all
}

func (g *guard) dynamoWants(r *http.Request, body []byte) ([]wanted, error) {
	_, operation, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	var request struct {
		rowRequest
		TransactItems []map[string]rowRequest
		RequestItems  map[string]json.RawMessage
	}
	if err := json.Unmarshal(body, &request); err != nil {
		return nil, err
	}
	var all []wanted
	want := func(operation, enclosing string, rows ...rowRequest) {
		w := wanted{"dynamodb:" + operation, fmt.Sprintf("arn:aws:dynamodb:%s:123456789012:table/%s", awstest.Region, g.table), map[string][]string{}}
		for _, row := range rows {
			w.keys["dynamodb:LeadingKeys"] = append(w.keys["dynamodb:LeadingKeys"], row.partitions()...)
		}
		if enclosing != "" {
			w.keys["dynamodb:EnclosingOperation"] = []string{enclosing}
		}
		all = append(all, w)
	}
	for _, part := range request.TransactItems {
		for kind, row := range part {
			want(kind+"Item", operation, row) // PutItem, UpdateItem, DeleteItem, ConditionCheckItem
		}
	}
	for _, part := range request.RequestItems {
		rows, err := batchRows(operation, part)
		if err != nil {
			return nil, err
		}
		want(operation, "", rows...)
	}
	if len(all) == 0 {
		want(operation, "", request.rowRequest)
	}
	for _, w := range all {
		if len(w.keys["dynamodb:LeadingKeys"]) == 0 && !slices.Contains(tableOperations, operation) {
			return nil, fmt.Errorf("%s names no partition", w.action)
		}
	}
	return all, nil
}

// tableOperations are about a table and no row.
var tableOperations = []string{
	"CreateTable", "DescribeTable", "UpdateTable", "DescribeTimeToLive", "UpdateTimeToLive", "DescribeContinuousBackups", "UpdateContinuousBackups",
}

// batchRows returns what a batch asks of one table.
func batchRows(operation string, part json.RawMessage) (rows []rowRequest, err error) {
	if operation == "BatchGetItem" {
		rows = make([]rowRequest, 1)
		return rows, json.Unmarshal(part, &rows[0])
	}
	var writes []map[string]rowRequest
	err = json.Unmarshal(part, &writes)
	for _, write := range writes {
		for _, row := range write {
			rows = append(rows, row)
		}
	}
	return rows, err
}

// judge reports whether the policy allows it, and takes note.
func (g *guard) judge(w wanted) bool {
	ok := allows(g.policy, w)
	g.mu.Lock()
	defer g.mu.Unlock()
	if ok {
		g.allowed[w.action] = true
	} else {
		g.refused = append(g.refused, fmt.Sprintf("%+v", w))
	}
	return ok
}

// allows reports whether one statement of a policy allows it all.
func allows(policy awssetup.Policy, w wanted) bool {
	return slices.ContainsFunc(policy.Statement, func(s awssetup.Statement) bool {
		if !slices.Contains(s.Action, w.action) || !matchesAny(s.Resource, w.resource) {
			return false
		}
		for operator, conditions := range s.Condition {
			for key, patterns := range conditions {
				if !holds(operator, w.keys[key], patterns) {
					return false
				}
			}
		}
		return true
	})
}

// holds judges one condition as IAM does.
func holds(operator string, values, patterns []string) bool {
	matches := func(v string) bool { return slices.Contains(patterns, v) }
	if strings.HasSuffix(operator, "StringLike") {
		matches = func(v string) bool { return matchesAny(patterns, v) }
	}
	switch operator {
	case "Null":
		return (len(values) == 0) == slices.Contains(patterns, "true")
	case "ForAllValues:StringEquals", "ForAllValues:StringLike":
		return !slices.ContainsFunc(values, func(v string) bool { return !matches(v) })
	case "ForAnyValue:StringEquals", "StringEquals", "StringLike":
		return slices.ContainsFunc(values, matches)
	}
	panic("the guard does not know the operator " + operator)
}

// matchesAny reports whether a pattern with * for any text fits.
func matchesAny(patterns []string, text string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		ok, err := path.Match(strings.ReplaceAll(pattern, "/", "\x00"), strings.ReplaceAll(text, "/", "\x00"))
		return err == nil && ok
	})
}

// refusals returns what the policy has refused so far.
func (g *guard) refusals() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.refused)
}
