package gate

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"mneme/cas"
	"mneme/errkind"
	"mneme/gateway/wire"
	"mneme/memory"
	"mneme/server/access"
	"mneme/undo"
	"mneme/versionlog"
	"mneme/versionlog/memlog"
)

// send sends a body to an operation as it is.
func (r *rig) send(op string, body []byte, header ...string) *httptest.ResponseRecorder {
	r.Helper()
	w := httptest.NewRecorder()
	q := httptest.NewRequest(http.MethodPost, wire.Prefix+op, bytes.NewReader(body))
	for i := 0; i < len(header); i += 2 {
		q.Header.Set(header[i], header[i+1])
	}
	r.handler.ServeHTTP(w, q)
	return w
}

// ask sends a request, and returns the error of the answer.
func (r *rig) ask(op string, a wire.Ask) error {
	r.Helper()
	body, err := json.Marshal(&a)
	if err != nil {
		r.Fatal(err)
	}
	return r.errorOf(r.send(op, body))
}

func (r *rig) errorOf(w *httptest.ResponseRecorder) error {
	r.Helper()
	if w.Code != http.StatusOK {
		return wire.DecodeError(w.Body.Bytes())
	}
	if wire.IsStream(w.Header()) {
		items := wire.NewStreamReader(w.Body)
		for {
			if _, err := items.Read(make([]byte, 1000)); err != nil {
				if strings.Contains(err.Error(), "EOF") {
					return nil
				}
				return err
			}
		}
	}
	return nil
}

// commit sends a proposal that nothing has checked.
func (r *rig) commit(p *versionlog.Proposal) (*versionlog.Commit, error) {
	r.Helper()
	body, err := wire.EncodeProposal(p)
	if err != nil {
		r.Fatal(err)
	}
	w := r.send(wire.OpCommit, body, wire.StoreHeader, r.store.ID)
	if err := r.errorOf(w); err != nil {
		return nil, err
	}
	answer, err := wire.ReadAnswer(w.Body.Bytes())
	if err != nil {
		r.Fatal(err)
	}
	c, err := wire.DecodeCommit(answer.Commit)
	if err != nil {
		r.Fatal(err)
	}
	return c, nil
}

func (r *rig) blob(content string) {
	r.Helper()
	if err := r.errorOf(r.send(wire.OpPutBlob, []byte(content), wire.StoreHeader, r.store.ID, wire.DigestHeader, cas.Sum([]byte(content)).String())); err != nil {
		r.Fatal(err)
	}
}

// TestRights sends every operation for callers of every right. An operation without a row fails.
func TestRights(t *testing.T) {
	r := newRig(t, nil)
	c, err := r.commit(put("/a", "1"))
	if err != nil {
		t.Fatal(err)
	}
	hidden, err := r.lib.Hidden(t.Context(), "access", memory.SessionAuthor("s"))
	if err != nil {
		t.Fatal(err)
	}
	v := c.Versions[0]
	asks := func(id string) map[string]wire.Ask {
		return map[string]wire.Ask{
			wire.OpStore: {Store: id}, wire.OpTip: {Store: id}, wire.OpHead: {Store: id, Path: "/a"}, wire.OpLast: {Store: id, Path: "/a"},
			wire.OpHeld: {Store: id, Path: "/"}, wire.OpHeads: {Store: id, Path: "/"}, wire.OpChildren: {Store: id, Path: "/"},
			wire.OpVersion: {Store: id, ID: v.ID}, wire.OpHistory: {Store: id, ID: v.MemoryID}, wire.OpPathHistory: {Store: id, Path: "/a"},
			wire.OpNewest: {Store: id, ID: v.MemoryID}, wire.OpAt: {Store: id, Seq: 1}, wire.OpSeqAt: {Store: id}, wire.OpCommits: {Store: id},
			wire.OpCommitsBefore: {Store: id}, wire.OpFollow: {Store: id}, wire.OpGetBlobs: {Store: id, Blobs: []cas.Digest{v.Digest}},
			wire.OpHasBlobs: {Store: id, Blobs: []cas.Digest{v.Digest}}, wire.OpPurge: {Store: id}, wire.OpForget: {Store: id},
		}
	}
	rows := asks(r.store.ID)
	others := map[string]func(id string) error{
		wire.OpHello:  func(string) error { return nil },
		wire.OpStores: func(string) error { return r.ask(wire.OpStores, wire.Ask{}) },
		wire.OpPutBlob: func(id string) error {
			return r.errorOf(r.send(wire.OpPutBlob, []byte("x"), wire.StoreHeader, id, wire.DigestHeader, cas.Sum([]byte("x")).String()))
		},
		wire.OpCommit: func(id string) error {
			body, _ := wire.EncodeProposal(put("/b", "1"))
			return r.errorOf(r.send(wire.OpCommit, body, wire.StoreHeader, id))
		},
		wire.OpUnpurged: nil, wire.OpLeft: nil, // which this log does not have
		wire.OpCreateStore: nil, wire.OpDeleteStore: nil, // see TestStores
	}
	for _, route := range Routes {
		op := strings.TrimPrefix(route.Path, wire.Prefix)
		row, asked := rows[op]
		do, other := others[op]
		if !asked && !other {
			t.Errorf("%s has no row", op)
		}
		if asked {
			do = func(id string) error {
				row := row
				row.Store = id
				return r.ask(op, row)
			}
		}
		if do == nil || op == wire.OpHello || op == wire.OpStores {
			continue
		}
		for _, right := range []access.Right{access.None, access.Read, access.Write, access.Admin} {
			r.caller = &access.Caller{Library: r.lib, Actor: r.caller.Actor, Grants: map[string]access.Right{r.store.ID: right, hidden.Info().ID: right}}
			err := do(r.store.ID)
			want := errkind.None
			if right < route.Right {
				want = errkind.Denied
			}
			if right == access.None {
				want = errkind.NotFound
			}
			if got := errkind.Of(err); got != want {
				t.Errorf("%s with the right %v: %v, want %v", op, right, err, want)
			}
			for _, id := range []string{hidden.Info().ID, versionlog.NewStoreID(), "", "../x"} {
				if err := do(id); errkind.Of(err) != errkind.NotFound {
					t.Errorf("%s of the store %q with the right %v: %v", op, id, right, err)
				}
			}
		}
	}
	everything := &access.Caller{Library: r.lib, Everywhere: access.Admin}
	r.caller = everything
	for op, row := range asks(hidden.Info().ID) {
		if err := r.ask(op, row); errkind.Of(err) != errkind.NotFound {
			t.Errorf("%s of a hidden store by one who may do everything: %v", op, err)
		}
	}
	for _, slug := range []wire.Text{".access", "unknown"} {
		if err := r.ask(wire.OpStore, wire.Ask{Slug: slug}); errkind.Of(err) != errkind.NotFound {
			t.Errorf("the store %s: %v", slug, err)
		}
	}
	r.caller = nil
	for _, route := range Routes {
		w := r.send(strings.TrimPrefix(route.Path, wire.Prefix), nil)
		if w.Code != http.StatusUnauthorized || !strings.Contains(w.Body.String(), `"kind":"unauthenticated"`) {
			t.Errorf("%s without a credential: %d, %s", route.Name, w.Code, w.Body)
		}
	}
}

// TestStores: stores are made and deleted by admins only, and by the rules.
func TestStores(t *testing.T) {
	r := newRig(t, nil)
	store := func(slug string) wire.Ask {
		return wire.Ask{New: &wire.Store{StoreJSON: versionlog.StoreJSON{ID: versionlog.NewStoreID(), Slug: slug, Name: "x", MaxMemoryBytes: 1, Content: versionlog.ContentText}}}
	}
	if err := r.ask(wire.OpCreateStore, store("x")); err != nil {
		t.Error(err)
	}
	for _, slug := range []string{".hidden", "../x", "", "X"} {
		if err := r.ask(wire.OpCreateStore, store(slug)); errkind.Of(err) != errkind.Invalid {
			t.Errorf("a store %q: %v", slug, err)
		}
	}
	bad := store("y")
	bad.New.ID = "../../x"
	if err := r.ask(wire.OpCreateStore, bad); errkind.Of(err) != errkind.Invalid {
		t.Errorf("a store with a bad id: %v", err)
	}
	admin := r.caller
	r.caller = &access.Caller{Library: r.lib, Everywhere: access.Write, Grants: map[string]access.Right{r.store.ID: access.Write}}
	if err := r.ask(wire.OpCreateStore, store("z")); errkind.Of(err) != errkind.Denied {
		t.Errorf("a store by a writer: %v", err)
	}
	if err := r.ask(wire.OpDeleteStore, wire.Ask{Store: r.store.ID}); errkind.Of(err) != errkind.Denied {
		t.Errorf("a deletion by a writer: %v", err)
	}
	for _, e := range []*versionlog.Event{versionlog.StoreArchived(), versionlog.StorePromoted(), versionlog.StoreRedacted("x")} {
		p := put("/a", "1")
		p.Changes, p.Event, p.Message = nil, e, "why"
		if _, err := r.commit(p); errkind.Of(err) != errkind.Denied {
			t.Errorf("%s by a writer: %v", e.Kind, err)
		}
	}
	r.caller = admin
	huge, hidden := int64(1)<<60, "a\u202eb"
	for _, u := range []versionlog.StoreUpdate{{MaxMemoryBytes: &huge}, {Name: &hidden}} {
		p := put("/a", "1")
		p.Changes, p.Event = nil, versionlog.StoreUpdated(u)
		if _, err := r.commit(p); errkind.Of(err) != errkind.Invalid {
			t.Errorf("an update that the rules refuse: %v", err)
		}
	}
	if err := r.ask(wire.OpDeleteStore, wire.Ask{Store: r.store.ID}); err != nil {
		t.Error(err)
	}
}

// TestAuthor: the server sets the author of a commit. A session with a token has the name
// in the token, and cannot commit in the name of another.
func TestAuthor(t *testing.T) {
	r := newRig(t, nil)
	p := put("/a", "1")
	p.Session = "claimed"
	c, err := r.commit(p)
	if err != nil || c.Actor != r.caller.Actor || c.Session != "claimed" {
		t.Errorf("by a key: %+v, %v", c, err)
	}
	if again, err := r.commit(p); err != nil || again.Digest != c.Digest {
		t.Errorf("the same proposal again is %+v, %v", again, err)
	}
	r.caller.Session, p.Session = "of the token", ""
	if got, err := r.commit(p); !errors.Is(err, versionlog.ErrInvalid) {
		t.Errorf("the key of another session's commit: %+v, %v", got, err)
	}
	for session, isTaken := range map[string]bool{"": true, "of the token": true, "claimed": false} {
		p = put("/b", versionlog.NewKey())
		p.Session = session
		c, err := r.commit(p)
		if isTaken && (err != nil || c.Session != "of the token") || !isTaken && errkind.Of(err) != errkind.Denied {
			t.Errorf("of session %q, by a token: %+v, %v", session, c, err)
		}
	}
	finished := put("/c", "1")
	finished.Key, finished.Finished = c.Key, c
	r.caller = &access.Caller{Library: r.lib, Actor: r.caller.Actor, Grants: map[string]access.Right{r.store.ID: access.Write}}
	if _, err := r.commit(finished); errkind.Of(err) != errkind.Denied {
		t.Errorf("a finished commit by a writer: %v", err)
	}
}

// TestContents: no client brings a content into a store that package memory would keep out.
func TestContents(t *testing.T) {
	r := newRig(t, &memory.StoreOptions{MaxMemoryBytes: 1000, Policy: versionlog.Policy{Secrets: versionlog.SecretsRefuse, Guard: versionlog.Guard{DeletesPerMinute: 1}}})
	big := strings.Repeat("x", 1001)
	secret := "key = AKIA" + "IOSFODNN7" + "QWERTYA\n"
	change := func(change func(*versionlog.Change)) *versionlog.Proposal {
		p := put("/a", "1")
		change(&p.Changes[0])
		return p
	}
	stored := func(content string, say func(*versionlog.Change)) *versionlog.Proposal {
		p := put("/a", content)
		p.Changes[0].Content = nil
		if say != nil {
			say(&p.Changes[0])
		}
		return p
	}
	r.blob(secret)
	r.blob("\xff")
	r.blob("blob")
	for what, test := range map[string]struct {
		p    *versionlog.Proposal
		want errkind.Kind
	}{
		"a long message":        {&versionlog.Proposal{Key: versionlog.NewKey(), Fresh: true, Changes: put("/a", "1").Changes, Message: strings.Repeat("m", versionlog.MaxMessage+1)}, errkind.Invalid},
		"a long session":        {&versionlog.Proposal{Key: versionlog.NewKey(), Fresh: true, Changes: put("/a", "1").Changes, Session: strings.Repeat("s", versionlog.MaxName+1)}, errkind.Invalid},
		"another digest":        {change(func(c *versionlog.Change) { c.Digest = cas.Sum(nil) }), errkind.Invalid},
		"too big":               {put("/a", big), errkind.TooLarge},
		"no text":               {put("/a", "\xff"), errkind.NotText},
		"a secret":              {put("/a", secret), errkind.Policy},
		"a stored secret":       {stored(secret, nil), errkind.Policy},
		"stored, no text":       {stored("\xff", nil), errkind.NotText},
		"not stored":            {stored("never", nil), errkind.Corrupt},
		"stored, another size":  {stored("blob", func(c *versionlog.Change) { c.Size = 1 }), errkind.Invalid},
		"a path out of form":    {put("/e\u0301", "1"), errkind.Invalid},
		"a path of .mneme":      {put("/.mneme/x", "1"), errkind.Invalid},
		"a path with ..":        {put("/x/../y", "1"), errkind.Invalid},
		"an invisible name":     {put("/x\u200b", "1"), errkind.Invalid},
		"a spelling of another": {change(func(c *versionlog.Change) { c.Spelling = "/b" }), errkind.Invalid},
		"a rename out of form": {change(func(c *versionlog.Change) {
			c.Action, c.To = versionlog.Rename, "/b/"+strings.Repeat("/", 2)
		}), errkind.Invalid},
	} {
		if _, err := r.commit(test.p); errkind.Of(err) != test.want {
			t.Errorf("%s: %v, want %v", what, err, test.want)
		}
	}
	for _, p := range []*versionlog.Proposal{put("/a", "1"), put("/b", "2"), put("/c", "3"), stored("blob", nil)} {
		if _, err := r.commit(p); err != nil {
			t.Fatal(err)
		}
	}
	remove := func(path string) error {
		p := put(path, "1")
		p.Changes[0] = versionlog.Change{Action: versionlog.Remove, Path: path, Expect: versionlog.ExpectExists()}
		_, err := r.commit(p)
		return err
	}
	if err := remove("/a"); err != nil {
		t.Error(err)
	}
	if err := remove("/b"); errkind.Of(err) != errkind.Policy { // though the client says that it has deleted nothing
		t.Errorf("a second deletion within a minute: %v", err)
	}
	w := r.send(wire.OpPutBlob, []byte(big), wire.StoreHeader, r.store.ID, wire.DigestHeader, cas.Sum([]byte(big)).String())
	if err := r.errorOf(w); errkind.Of(err) != errkind.TooLarge {
		t.Errorf("a blob that is too big: %v", err)
	}
	w = r.send(wire.OpPutBlob, []byte("x"), wire.StoreHeader, r.store.ID, wire.DigestHeader, cas.Sum([]byte("y")).String())
	if err := r.errorOf(w); errkind.Of(err) != errkind.Invalid {
		t.Errorf("a blob of another digest: %v", err)
	}
}

// TestAgain: a request that lasts ends when its caller is found to count no more, and not before: not
// when that cannot be told. One that has ended is looked at no more.
func TestAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		looks := 0
		r.handler = New(func(*http.Request) (*access.Caller, error) { return r.caller, nil }, &Options{Recheck: time.Second, Again: func(*http.Request) (*access.Caller, error) {
			switch looks++; looks {
			case 1:
				return r.caller, nil
			case 2:
				return nil, errNoRoom
			}
			return nil, access.ErrUnauthenticated
		}})
		began := time.Now()
		if err := r.ask(wire.OpFollow, wire.Ask{Store: r.store.ID}); errkind.Of(err) != errkind.Unauthenticated || time.Since(began) != 3*time.Second {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		if err := r.ask(wire.OpTip, wire.Ask{Store: r.store.ID}); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Minute)
		if looks != 3 {
			t.Errorf("%d looks, want 3", looks)
		}
	})
}

// TestUnclaimed: what a client puts and names in no commit counts against the store's quota.
func TestUnclaimed(t *testing.T) {
	r := newRig(t, &memory.StoreOptions{Quota: versionlog.Quota{Bytes: 20_000}})
	send := func(content string) error {
		return r.errorOf(r.send(wire.OpPutBlob, []byte(content), wire.StoreHeader, r.store.ID, wire.DigestHeader, cas.Sum([]byte(content)).String()))
	}
	content := func(of string) string { return strings.Repeat(of, 7000) }
	for _, of := range []string{"a", "a", "b"} {
		if err := send(content(of)); err != nil {
			t.Error(err)
		}
	}
	if err := send(content("c")); errkind.Of(err) != errkind.OverQuota {
		t.Errorf("a third one: %v", err)
	}
	p := put("/a", content("a"))
	p.Changes[0].Content = nil
	if _, err := r.commit(p); err != nil {
		t.Fatal(err)
	}
	if err := send("d"); err != nil { // 7,000 in the history, 7,000 waiting
		t.Error(err)
	}
	if err := send(content("c")); errkind.Of(err) != errkind.OverQuota {
		t.Errorf("beside what was committed: %v", err)
	}
}

// TestConfirmed: what a guard or the rule of secrets holds back a person confirms, and no session
// with a token.
func TestConfirmed(t *testing.T) {
	r := newRig(t, &memory.StoreOptions{Policy: versionlog.Policy{Secrets: versionlog.SecretsRefuse}})
	secret := func(path string) error {
		p := put(path, "key = AKIA"+"IOSFODNN7"+"QWERTYA\n")
		p.Confirmed = true
		_, err := r.commit(p)
		return err
	}
	if err := secret("/a"); err != nil {
		t.Errorf("by a key: %v", err)
	}
	r.caller.Session = "of the token"
	if err := secret("/b"); errkind.Of(err) != errkind.Policy {
		t.Errorf("by a token: %v", err)
	}
}

// TestNotesOfSessions: a session that says of its change that it takes others back is not
// believed, so that the change can be taken back.
func TestNotesOfSessions(t *testing.T) {
	r := newRig(t, nil)
	r.caller.Session = "of the token"
	for _, meta := range []map[string]string{nil, {"restored_to": "0"}} {
		p := put("/evil.md", versionlog.NewKey())
		p.Meta = meta
		if _, err := r.commit(p); err != nil {
			t.Fatal(err)
		}
	}
	st, err := r.lib.Open(t.Context(), r.store.ID, &memory.Author{Actor: versionlog.Actor{Kind: versionlog.ActorUser, ID: "ann"}})
	if err != nil {
		t.Fatal(err)
	}
	plan, err := undo.PlanUndo(t.Context(), st, "of the token", 0)
	if err != nil || len(plan.Steps) != 1 || plan.Steps[0].To != nil {
		t.Errorf("it is to be taken back with %+v, %v", plan, err)
	}
}

// TestFinishedContents: a commit that was made elsewhere has the contents that it names,
// for every sender.
func TestFinishedContents(t *testing.T) {
	r := newRig(t, nil)
	elsewhere := memlog.New(nil)
	if err := elsewhere.CreateStore(t.Context(), r.store); err != nil {
		t.Fatal(err)
	}
	if err := versionlog.Import(t.Context(), elsewhere, r.store.ID, r.lib.Ruled().Commits(t.Context(), r.store.ID, 0)); err != nil {
		t.Fatal(err)
	}
	c, err := elsewhere.Commit(t.Context(), r.store.ID, put("/a", "true"))
	if err != nil {
		t.Fatal(err)
	}
	p := put("/a", "true")
	p.Key, p.Finished = c.Key, c
	p.Changes[0].MemoryID, p.Changes[0].Expect, p.Changes[0].Content = c.Versions[0].MemoryID, versionlog.ExpectAbsent(), []byte("lies")
	if _, err := r.commit(p); errkind.Of(err) != errkind.Invalid {
		t.Errorf("with another content: %v", err)
	}
	p.Changes[0].Content = []byte("true")
	if _, err := r.commit(p); err != nil {
		t.Error(err)
	}
}

// TestHiddenTexts: what is wrong behind the server is not told.
func TestHiddenTexts(t *testing.T) {
	e, status, hidden := wire.ErrorOf(errkind.New(errkind.Unknown, "arn:aws:secret"))
	if text := wire.DecodeError(e.Encode()).Error(); !hidden || status != http.StatusInternalServerError || strings.Contains(text, "arn") {
		t.Errorf("%d, %v, %s", status, hidden, text)
	}
}
