package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"mneme/memory"
	"mneme/versionlog"
)

// resource is one that is read.
type resource struct {
	URI      string
	MIMEType string
	Text     string
	Blob     *[]byte
}

// resource returns a resource.
func (c *client) resource(uri string) resource {
	c.Helper()
	var res struct {
		Contents   []resource
		CacheScope string
		TTLMs      int
	}
	c.must(json.Unmarshal(c.do("resources/read", map[string]any{"uri": uri}), &res))
	if len(res.Contents) != 1 || res.Contents[0].URI != uri || res.CacheScope != "private" || res.TTLMs != 0 {
		c.Errorf("%s: %+v", uri, res)
	}
	return res.Contents[0]
}

// TestResources reads stores and memories.
func TestResources(t *testing.T) {
	c := newRig(t, &rigOptions{stores: []string{"docs:ro", "notes"}, create: memory.StoreOptions{Content: versionlog.ContentAny}}).client()
	c.theirs("/a b/ü.md", "text")
	c.theirs("/raw", "\x89PNG\r\n\x1a\n\x00")
	c.theirs("/empty", "")
	if got := c.resource("mneme://notes/a%20b/%C3%BC.md"); got.Text != "text" || got.MIMEType != "text/markdown" {
		t.Errorf("read %+v", got)
	}
	if got := c.resource("mneme://notes/raw"); got.Blob == nil || string(*got.Blob) != "\x89PNG\r\n\x1a\n\x00" || got.MIMEType != "image/png" {
		t.Errorf("read %+v", got)
	}
	if got := c.resource("mneme://notes/empty"); got.Text != "" || got.Blob == nil {
		t.Errorf("read %+v, want that there is something", got)
	}
	if got := c.resource("mneme://notes/"); !strings.Contains(got.Text, "/memories/notes/a b/ü.md 4 bytes") {
		t.Errorf("read %+v", got)
	}
	if got := c.resource("mneme://docs/"); got.Text != "Nothing is there.\n" {
		t.Errorf("read %+v", got)
	}
	for _, uri := range []string{
		"mneme://notes/none", "mneme://none/", "mneme://notes", "mneme:///a", "mneme://notes/a%20b", "file:///etc/passwd", "mneme://notes/../raw", "mneme://notes/a/%2e%2e/raw",
		"mneme://notes/raw?x", "mneme://notes/raw#x", "mneme://notes/a b/ü.md", "mneme://notes/%ff", "mneme://notes//raw", "mneme://notes/raw%00", "mneme://notes/\x7f", "",
	} {
		m := c.try("resources/read", map[string]any{"uri": uri})
		if m.Error == nil || m.Error.Code != -32602 || m.Error.Message != "Resource not found" {
			t.Errorf("%q: %s, %+v", uri, m.Result, m.Error)
		}
	}
}

// TestReadingAResource says that the session has not read what its client shows to a person.
func TestReadingAResource(t *testing.T) {
	c := newRig(t, nil).client()
	c.theirs("/a.md", "one")
	c.ok("one", "read", "path", "/memories/a.md")
	c.theirs("/a.md", "two")
	c.resource("mneme://notes/a.md")
	c.fails("/memories/a.md", "conflict", "write", "path", "/memories/a.md", "text", "two\nmine")
}

// TestListResources lists the stores and all memories in pages.
func TestListResources(t *testing.T) {
	c := newRig(t, &rigOptions{stores: []string{"a-b", "a", "notes"}}).client()
	want := []string{"mneme://a/", "mneme://a-b/", "mneme://notes/"}
	for _, slug := range []string{"a", "a-b"} {
		_, err := c.stores[slug].Write(t.Context(), "/x", []byte("x"), versionlog.ExpectAny())
		c.must(err)
		want = append(want, "mneme://"+slug+"/x")
	}
	for i := range 450 {
		c.theirs(fmt.Sprintf("/%03d.md", i), "x")
		want = append(want, fmt.Sprintf("mneme://notes/%03d.md", i))
	}
	var got []string
	pages := 0
	for cursor := ""; ; pages++ {
		var res struct {
			Resources  []resource
			NextCursor string
			CacheScope string
		}
		params := map[string]any{}
		if cursor != "" {
			params["cursor"] = cursor
		}
		c.must(json.Unmarshal(c.do("resources/list", params), &res))
		for _, r := range res.Resources {
			got = append(got, r.URI)
		}
		if len(res.Resources) > resourcePage || res.CacheScope != "private" {
			t.Errorf("a page has %d, and is %s", len(res.Resources), res.CacheScope)
		}
		if cursor = res.NextCursor; cursor == "" {
			break
		}
	}
	if !slices.Equal(got, want) || pages != 2 {
		t.Errorf("%d pages of %d resources, want 3 of %d: %v", pages+1, len(got), len(want), got)
	}
	if m := c.try("resources/list", map[string]any{"cursor": "zzz"}); m.Error == nil || m.Error.Code != -32602 {
		t.Errorf("a cursor of nobody: %s, %+v", m.Result, m.Error)
	}
}

// TestCacheable says that what a client keeps is for one user, and is kept only where it does
// not change.
func TestCacheable(t *testing.T) {
	c := newRig(t, nil).client()
	for method, ttl := range map[string]int{
		"server/discover": stableFor, "tools/list": stableFor, "prompts/list": stableFor, "resources/templates/list": stableFor, "resources/list": 0,
	} {
		var res struct {
			CacheScope string
			TTLMs      int
		}
		c.must(json.Unmarshal(c.do(method, nil), &res))
		if res.CacheScope != "private" || res.TTLMs != ttl {
			t.Errorf("%s: %+v, want it private for %d ms", method, res, ttl)
		}
	}
}

// TestSubscriptions tells clients of both times of changes, their own ones, too.
func TestSubscriptions(t *testing.T) {
	for name, subscribe := range map[string]func(*rig, string) *client{
		"today": func(r *rig, uri string) *client {
			c := r.client()
			line, _ := c.line(listen, map[string]any{"notifications": map[string]any{"resourceSubscriptions": []string{uri}}})
			c.send(line)
			c.next()
			return c
		},
		"2025": func(r *rig, uri string) *client {
			c := r.oldClient("{}")
			c.do("resources/subscribe", map[string]any{"uri": uri})
			return c
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, nil)
			r.theirs("/a.md", "one")
			r.theirs("/b.md", "one")
			one, all := subscribe(r, "mneme://notes/a.md"), subscribe(r, "mneme://notes/")
			hears := func(c *client, want string) {
				t.Helper()
				c.told = append(c.told, c.next())
				if got := c.heard(); !slices.Equal(got, []string{want}) {
					t.Errorf("heard of %v, want %s", got, want)
				}
			}
			r.theirs("/b.md", "two")
			hears(all, "mneme://notes/")
			r.theirs("/a.md", "two")
			hears(one, "mneme://notes/a.md")
			hears(all, "mneme://notes/")
			_, err := r.sessions["notes"].Write(t.Context(), "/a.md", []byte("mine"), nil)
			r.must(err)
			hears(one, "mneme://notes/a.md")
			_, err = r.stores["notes"].Rename(t.Context(), "/a.md", "/c.md", nil)
			r.must(err)
			hears(one, "mneme://notes/a.md")
			one.ok("", "list")
			if got := one.heard(); got != nil {
				t.Errorf("heard of %v besides", got)
			}
		})
	}
}

// TestSubscribed says that a client has subscribed when changes are heard of from then on, and
// that it hears of all when that has broken off.
func TestSubscribed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		begin, breakOff := make(chan bool), make(chan error)
		r.watch.follow = func(ctx context.Context, _ string, began func(), _ func(string)) error {
			<-begin
			began()
			select {
			case err := <-breakOff:
				return err
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		c := r.oldClient("{}")
		line, id := c.line("resources/subscribe", map[string]any{"uri": "mneme://notes/"})
		c.send(line)
		answered := false
		go func() {
			c.answer(id)
			answered = true
		}()
		synctest.Wait()
		if answered {
			t.Error("the client has subscribed before anything is heard of")
		}
		begin <- true
		synctest.Wait()
		if !answered {
			t.Fatal("the client has not subscribed")
		}
		breakOff <- errors.New("the store does not answer")
		begin <- true
		if m := c.next(); m.Method != "notifications/resources/updated" {
			t.Errorf("heard of %+v", m)
		}
		c.gone()
		r.Close()
	})
}

// TestSubscribing refuses what is not there, and too much.
func TestSubscribing(t *testing.T) {
	c := newRig(t, nil).oldClient("{}")
	for _, uri := range []string{"mneme://notes/none", "mneme://none/", "file:///etc/passwd"} {
		if m := c.try("resources/subscribe", map[string]any{"uri": uri}); m.Error == nil || m.Error.Message != "Resource not found" {
			t.Errorf("%s: %s, %+v", uri, m.Result, m.Error)
		}
	}
	c.theirs("/a b", "x")
	if m := c.try("resources/subscribe", map[string]any{"uri": "mneme://notes/%61%20b"}); m.Error == nil || m.Error.Message != "subscribe to it as mneme://notes/a%20b" {
		t.Errorf("another spelling: %s, %+v", m.Result, m.Error)
	}
	for i := range maxSubscriptions {
		c.theirs(fmt.Sprintf("/%d", i), "x")
		c.do("resources/subscribe", map[string]any{"uri": fmt.Sprintf("mneme://notes/%d", i)})
	}
	if m := c.try("resources/subscribe", map[string]any{"uri": "mneme://notes/"}); m.Error == nil || m.Error.Code != codeBusy {
		t.Errorf("answered %s, %+v, want that there are too many", m.Result, m.Error)
	}
	c.do("resources/unsubscribe", map[string]any{"uri": "mneme://notes/7"})
	c.do("resources/subscribe", map[string]any{"uri": "mneme://notes/"})
	if n := len(c.watch.stores); n != 1 {
		t.Errorf("%d stores are followed", n)
	}
	c.gone()
	if len(c.watch.stores) != 0 || len(c.watch.clients) != 0 {
		t.Errorf("%d stores are followed for nobody", len(c.watch.stores))
	}
}

// TestComplete completes paths.
func TestComplete(t *testing.T) {
	c := newRig(t, nil).client()
	c.theirs("/a b.md", "x")
	c.theirs("/b.md", "x")
	complete := func(ref map[string]string, value string) string {
		return string(c.do("completion/complete", map[string]any{"ref": ref, "argument": map[string]string{"name": "path", "value": value}}))
	}
	template := map[string]string{"type": "ref/resource", "uri": "mneme://notes/{+path}"}
	if got := complete(template, "a"); !strings.Contains(got, `"values":["a%20b.md"]`) {
		t.Errorf("completed %s", got)
	}
	if got := complete(map[string]string{"type": "ref/resource", "uri": "mneme://none/{+path}"}, "a"); !strings.Contains(got, `"values":[]`) {
		t.Errorf("completed %s", got)
	}
	if got := complete(map[string]string{"type": "ref/prompt", "name": "note"}, "a"); !strings.Contains(got, `"values":[]`) {
		t.Errorf("completed %s", got)
	}
}

// TestPrompt says what the stores are.
func TestPrompt(t *testing.T) {
	c := newRig(t, &rigOptions{stores: []string{"docs:ro", "notes"}}).client()
	got := string(c.do("prompts/get", map[string]any{"name": "note"}))
	for _, want := range []string{"/memories/docs (read-only)", "/memories/notes (read and write)", "The tools history, diff and restore"} {
		if !strings.Contains(got, want) {
			t.Errorf("the note has no %q: %s", want, got)
		}
	}
}

// FuzzURI says that a URI that is taken is one of its path.
func FuzzURI(f *testing.F) {
	for _, uri := range []string{"mneme://notes/a%20b/%C3%BC.md", "mneme://notes/", "mneme://notes/%2F", "mneme://n/%25"} {
		f.Add(uri)
	}
	f.Fuzz(func(t *testing.T, uri string) {
		slug, path, valid := parseURI(uri)
		if !valid {
			return
		}
		again := uriOf(slug, path)
		if slug2, path2, valid := parseURI(again); !valid || slug2 != slug || path2 != path {
			t.Errorf("%q is %q of %q, whose URI %q is %q of %q", uri, path, slug, again, path2, slug2)
		}
	})
}
