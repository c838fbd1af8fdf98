package mcp

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"path"
	"strings"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"mneme/errkind"
	"mneme/memory"
	"mneme/tools"
)

// The bounds of resources.
const (
	resourcePage    = 200
	maxResource     = 4 << 20 // bytes of one that is read
	maxCompletions  = 100
	maxStoreEntries = 1000 // lines of the resource of a store
)

// addResources adds the stores to a server as resources, and the templates of the resources
// in them.
func (f *face) addResources(server *sdk.Server) {
	for _, s := range f.Stores() {
		server.AddResource(storeResource(&s), f.readStore)
		server.AddResourceTemplate(&sdk.ResourceTemplate{
			URITemplate: scheme + s.Slug + "/{+path}", Name: "memory of " + s.Slug, Description: s.Description,
		}, f.readMemory)
	}
}

func storeResource(s *tools.StoreInfo) *sdk.Resource {
	return &sdk.Resource{URI: uriOf(s.Slug, "/"), Name: s.Slug, Description: s.Description, MIMEType: "text/plain"}
}

// maxURI bounds the URIs that can be of a memory, in bytes: each of a path may be escaped.
const maxURI = 4 * memory.MaxPathBytes

// notFound is the error of a resource that is not there, whatever the reason.
func notFound(uri string) error {
	if len(uri) > maxURI {
		uri = strings.ToValidUTF8(uri[:maxURI], "") + "…"
	}
	data, _ := json.Marshal(map[string]string{"uri": uri})
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "Resource not found", Data: data}
}

// locate returns the path of the tool that a URI means.
func (f *face) locate(uri string) (at string, isStore bool, err error) {
	slug, inside, valid := parseURI(uri)
	if valid {
		for _, s := range f.Stores() {
			if s.Slug == slug {
				return s.Path + inside, inside == "", nil
			}
		}
	}
	return "", false, notFound(uri)
}

// readStore lists the content of a store.
func (f *face) readStore(ctx context.Context, r *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
	at, _, err := f.locate(r.Params.URI)
	if err != nil {
		return nil, err
	}
	page, err := f.List(ctx, tools.ListQuery{Path: at, Depth: tools.MaxDepth, Limit: maxStoreEntries})
	if err != nil {
		return nil, resourceError(r.Params.URI, err)
	}
	var b strings.Builder
	for i := range page.Entries {
		e := entryOf(&page.Entries[i])
		b.WriteString(e.String() + "\n")
	}
	switch {
	case page.Next != "":
		b.WriteString("There is more; the tool list has the rest.\n")
	case page.Entries == nil:
		b.WriteString("Nothing is there.\n")
	}
	return contents(r.Params.URI, "text/plain", []byte(b.String())), nil
}

// readMemory returns the content of a memory.
func (f *face) readMemory(ctx context.Context, r *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
	at, _, err := f.locate(r.Params.URI)
	if err != nil {
		return nil, err
	}
	v, data, err := f.Content(ctx, at)
	switch {
	case err != nil:
		return nil, resourceError(r.Params.URI, err)
	case len(data) > maxResource:
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "the resource is too large; the tool read has it in parts"}
	}
	return contents(r.Params.URI, mimeType(v.Path, data), data), nil
}

// mimeType is that of a memory; data may be nil where it is not known.
func mimeType(at string, data []byte) string {
	switch {
	case !isText(data):
		return http.DetectContentType(data)
	case path.Ext(at) == ".md":
		return "text/markdown"
	}
	return "text/plain"
}

func isText(data []byte) bool { return utf8.Valid(data) && !strings.ContainsRune(string(data), 0) }

func contents(uri, kind string, data []byte) *sdk.ReadResourceResult {
	one := &sdk.ResourceContents{URI: uri, MIMEType: kind}
	if isText(data) && len(data) > 0 {
		one.Text = string(data)
	} else {
		one.Blob = append([]byte{}, data...) // the SDK leaves out an empty text, and a resource has to have something
	}
	return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{one}}
}

// resourceError is the error of a resource. One that cannot be is not there.
func resourceError(uri string, err error) error {
	var e *tools.Error
	switch {
	case !errors.As(err, &e):
		return err
	case cannotBe(e):
		return notFound(uri)
	}
	return &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: e.Error()}
}

// cannotBe reports whether an error says that nothing is, or can be, at a path.
func cannotBe(e *tools.Error) bool {
	return e.Kind == errkind.NotFound || e.Kind == errkind.Invalid || e.Kind == errkind.NameTooLong || e.Kind == errkind.PathEncoding
}

// listResources lists the stores, and then all memories in the order of their stores and
// paths. A cursor is where the page before has ended.
func (f *face) listResources(ctx context.Context, cursor string) (*sdk.ListResourcesResult, error) {
	res := &sdk.ListResourcesResult{Resources: []*sdk.Resource{}, Cacheable: sdk.Cacheable{CacheScope: "private"}}
	stores := f.Stores()
	after, err := decodeCursor(cursor)
	if err != nil {
		return nil, err
	}
	if cursor == "" {
		for i := range stores {
			res.Resources = append(res.Resources, storeResource(&stores[i]))
		}
	}
	for _, s := range stores {
		if s.Slug < after.store {
			continue
		}
		files, err := f.Below(ctx, s.Path)
		var gone *tools.Error
		if errors.As(err, &gone) && cannotBe(gone) {
			continue // the store has been deleted, and the others have not
		}
		if err != nil {
			return nil, resourceError(uriOf(s.Slug, "/"), err)
		}
		for i := range files {
			at := strings.TrimPrefix(files[i].Path, s.Path)
			if s.Slug == after.store && at <= after.path {
				continue
			}
			if len(res.Resources) >= resourcePage {
				res.NextCursor = after.encode()
				return res, nil
			}
			res.Resources = append(res.Resources, memoryResource(s.Slug, at, &files[i]))
			after = cursorAt{s.Slug, at}
		}
	}
	return res, nil
}

func memoryResource(slug, at string, e *tools.Entry) *sdk.Resource {
	return &sdk.Resource{
		URI: uriOf(slug, at), Name: slug + at, Size: e.Size, MIMEType: mimeType(at, nil),
		Annotations: &sdk.Annotations{LastModified: stamp(e.Updated)},
	}
}

// cursorAt is the last memory of a page.
type cursorAt struct{ store, path string }

func (c cursorAt) encode() string {
	return base64.RawURLEncoding.EncodeToString([]byte(c.store + c.path))
}

func decodeCursor(cursor string) (c cursorAt, err error) {
	if cursor == "" {
		return c, nil
	}
	data, err := base64.RawURLEncoding.DecodeString(cursor)
	store, inside, isCursor := strings.Cut(string(data), "/")
	if err != nil || !isCursor || store == "" {
		return c, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "the cursor is none of this server"}
	}
	return cursorAt{store, "/" + inside}, nil
}

// complete completes the path of a template.
func (f *face) complete(ctx context.Context, r *sdk.CompleteRequest) (*sdk.CompleteResult, error) {
	res := &sdk.CompleteResult{Completion: sdk.CompletionResultDetails{Values: []string{}}}
	if r.Params.Ref.Type != "ref/resource" || r.Params.Argument.Name != "path" {
		return res, nil
	}
	for _, s := range f.Stores() {
		if r.Params.Ref.URI != scheme+s.Slug+"/{+path}" {
			continue
		}
		files, err := f.Below(ctx, s.Path)
		if err != nil {
			return nil, resourceError(r.Params.Ref.URI, err)
		}
		for i := range files {
			at := strings.TrimPrefix(uriOf(s.Slug, strings.TrimPrefix(files[i].Path, s.Path)), scheme+s.Slug+"/")
			if !strings.HasPrefix(at, r.Params.Argument.Value) {
				continue
			}
			res.Completion.Total++
			if len(res.Completion.Values) < maxCompletions {
				res.Completion.Values = append(res.Completion.Values, at)
			}
		}
		res.Completion.HasMore = res.Completion.Total > maxCompletions
	}
	return res, nil
}
