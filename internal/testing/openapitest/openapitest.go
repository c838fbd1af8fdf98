// Package openapitest holds requests and their answers against the OpenAPI document of the server.
package openapitest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"

	"mneme/gateway/wire"
	"mneme/server/openapi"
)

// document is the server's, with every object of an answer closed: what the document does not
// have is not answered.
var document = sync.OnceValues(func() (*openapi3.T, error) {
	var whole any
	if err := json.Unmarshal(openapi.Document, &whole); err != nil {
		return nil, err
	}
	closeObjects(whole)
	data, err := json.Marshal(whole)
	if err != nil {
		return nil, err
	}
	openapi3filter.RegisterBodyDecoder("text/event-stream", openapi3filter.PlainBodyDecoder)
	doc, err := openapi3.NewLoader().LoadFromData(data)
	if err != nil {
		return nil, err
	}
	return doc, doc.Validate(context.Background())
})

func closeObjects(one any) {
	switch one := one.(type) {
	case map[string]any:
		if _, open := one["properties"]; open && one["type"] == "object" && one["additionalProperties"] == nil {
			one["additionalProperties"] = false
		}
		for _, inner := range one {
			closeObjects(inner)
		}
	case []any:
		for _, inner := range one {
			closeObjects(inner)
		}
	}
}

// Checker is a handler that fails the test unless requests and answers are as the document
// says: each request that is answered with success, and each answer. Requests that are no
// operation must be refused.
type Checker struct {
	t       testing.TB
	base    string
	next    http.Handler
	doc     *openapi3.T
	router  *http.ServeMux // whose handlers check an exchange
	refusal *routers.Route // of a request that is no operation

	mu   sync.Mutex // guards the fields below; a leaf
	done map[string]bool
}

var options = &openapi3filter.Options{
	IncludeResponseStatus: true, SkipSettingDefaults: true, RejectWhenRequestBodyNotSpecified: true,
	AuthenticationFunc: openapi3filter.NoopAuthenticationFunc,
}

// Wrap returns a Checker of the answers of a handler below a base path, "" if that is the
// root.
func Wrap(t testing.TB, base string, next http.Handler) *Checker {
	t.Helper()
	doc, err := document()
	if err != nil {
		t.Fatal(err)
	}
	c := &Checker{t: t, base: strings.TrimSuffix(base, "/"), next: next, doc: doc, router: http.NewServeMux(), done: map[string]bool{}}
	for path, item := range doc.Paths.Map() {
		for method, operation := range item.Operations() {
			route := &routers.Route{Spec: doc, Path: path, PathItem: item, Method: method, Operation: operation}
			c.router.HandleFunc(method+" "+path, func(w http.ResponseWriter, r *http.Request) { w.(*verdict).check(r, route) })
		}
	}
	refused := openapi3.NewResponses()
	for status, name := range map[string]string{"401": "Unauthenticated", "403": "Denied", "404": "NotFound", "405": "NoMethod", "429": "TooMany", "503": "Unavailable"} {
		refused.Set(status, doc.Components.Responses[name])
	}
	refused.Delete("default")
	c.refusal = &routers.Route{Spec: doc, PathItem: &openapi3.PathItem{}, Operation: &openapi3.Operation{Responses: refused}}
	return c
}

// Operations returns each operation of the document, see Operation, and whether a request for it
// was answered with success.
func (c *Checker) Operations() map[string]bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := map[string]bool{}
	for path, item := range c.doc.Paths.Map() {
		for method := range item.Operations() {
			name := Operation(method, path)
			all[name] = c.done[name]
		}
	}
	return all
}

// Unchecked returns the handler, for requests of which the document is not to know.
func (c *Checker) Unchecked() http.Handler { return c.next }

var parameter = regexp.MustCompile(`\{\w+\}`)

// Operation returns "METHOD /path", with {} for each parameter.
func Operation(method, path string) string {
	return method + " " + parameter.ReplaceAllString(path, "{}")
}

// ServeHTTP has a request answered, and checks both.
func (c *Checker) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e := &exchange{ResponseWriter: w}
	asked := r.Clone(r.Context()) // the handler may change the request
	r.Body = struct {
		io.Reader
		io.Closer
	}{io.TeeReader(r.Body, &e.request), r.Body}
	c.next.ServeHTTP(e, r)
	if r.Method == http.MethodOptions || strings.HasPrefix(r.URL.Path, wire.Prefix) {
		return // a question of a browser; a protocol with a description of its own
	}
	v := &verdict{Checker: c, exchange: e}
	rest, below := strings.CutPrefix(asked.URL.Path, c.base)
	if asked.URL.Path = rest; below {
		asked.URL.RawPath = strings.TrimPrefix(asked.URL.RawPath, c.base)
		asked.Body, asked.ContentLength = io.NopCloser(&e.request), int64(e.request.Len())
		asked.Header.Set("Content-Type", "application/json") // whatever a client calls it
		c.router.ServeHTTP(v, asked)
	}
	if !v.checked {
		v.checkAnswer(&openapi3filter.RequestValidationInput{Request: asked, Route: c.refusal, Options: options})
	}
}

// exchange is a request and what is answered, on its way to the client.
type exchange struct {
	http.ResponseWriter
	request bytes.Buffer
	status  int
	answer  bytes.Buffer
}

func (e *exchange) WriteHeader(status int) {
	if e.status == 0 {
		e.status = status
	}
	e.ResponseWriter.WriteHeader(status)
}

func (e *exchange) Write(p []byte) (int, error) {
	if e.status == 0 {
		e.status = http.StatusOK
	}
	e.answer.Write(p)
	return e.ResponseWriter.Write(p)
}

// Unwrap is for http.ResponseController.
func (e *exchange) Unwrap() http.ResponseWriter { return e.ResponseWriter }

// verdict finds the operation of an exchange by being its answer.
type verdict struct {
	*Checker
	*exchange
	checked bool
}

// Header, Write and WriteHeader are of a ServeMux that finds no operation.
func (v *verdict) Header() http.Header         { return http.Header{} }
func (v *verdict) Write(p []byte) (int, error) { return len(p), nil }
func (v *verdict) WriteHeader(int)             {}

// check checks an exchange of an operation.
func (v *verdict) check(r *http.Request, route *routers.Route) {
	input := &openapi3filter.RequestValidationInput{Request: r, PathParams: map[string]string{}, Route: route, Options: options}
	known := map[string]bool{}
	for _, all := range []openapi3.Parameters{route.PathItem.Parameters, route.Operation.Parameters} {
		for _, p := range all {
			known[p.Value.In+" "+p.Value.Name] = true
			if p.Value.In == openapi3.ParameterInPath {
				input.PathParams[p.Value.Name] = r.PathValue(p.Value.Name)
			}
		}
	}
	if v.status/100 == 2 {
		v.mu.Lock()
		v.done[Operation(route.Method, route.Path)] = true
		v.mu.Unlock()
		// An error text for a model has a status of success; the body may not have been read.
		if refused := v.ResponseWriter.Header().Get("X-Should-Retry") == "false"; !refused {
			if err := openapi3filter.ValidateRequest(context.Background(), input); err != nil {
				v.fail(r, err)
			}
		}
		for name := range r.URL.Query() {
			if !known["query "+name] {
				v.fail(r, fmt.Errorf("the document does not have the parameter %s", name))
			}
		}
	}
	v.checkAnswer(input)
}

func (v *verdict) checkAnswer(input *openapi3filter.RequestValidationInput) {
	v.checked = true
	answer := &openapi3filter.ResponseValidationInput{
		RequestValidationInput: input, Status: v.status, Header: v.ResponseWriter.Header(), Options: options,
		Body: io.NopCloser(&v.answer),
	}
	if err := openapi3filter.ValidateResponse(context.Background(), answer); err != nil {
		v.fail(input.Request, err)
	}
}

func (v *verdict) fail(r *http.Request, err error) {
	v.t.Errorf("%s %s, answered %d, is not as the document says: %.2000v", r.Method, r.URL, v.status, err)
}
