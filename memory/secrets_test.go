package memory

import (
	"errors"
	"strings"
	"testing"

	"mneme/cas"
	"mneme/cas/memcas"
	"mneme/errkind"
	"mneme/versionlog"
	"mneme/versionlog/memlog"
)

// Credentials that no service has issued. They are in parts here, so that no scanner
// reports this file.
const (
	aKey       = "AK" + "IA" + "Q7XK2M5PLW3RT6ZB"
	anotherKey = "AK" + "IA" + "3LMQ6W2ZPX5YTR7N"
)

// TestSecrets holds that a store's rule for secrets, set while the store is open, judges what is
// new in a memory: a credential that is there already does not keep it from being changed.
func TestSecrets(t *testing.T) {
	blobs := memcas.New()
	lib := NewLibrary(memlog.New(nil), func(string) (cas.Store, error) { return blobs, nil })
	info, err := lib.CreateStore(t.Context(), "notes", nil)
	if err != nil {
		t.Fatal(err)
	}
	s, err := lib.Open(t.Context(), info.ID, &Author{Actor: versionlog.Actor{Kind: versionlog.ActorUser, ID: "u"}})
	if err != nil {
		t.Fatal(err)
	}
	set := func(rule versionlog.SecretsRule) {
		t.Helper()
		if _, err := lib.UpdateStore(t.Context(), info.ID, versionlog.StoreUpdate{Secrets: (*string)(&rule)}, versionlog.Actor{Kind: versionlog.ActorUser, ID: "u"}); err != nil {
			t.Fatal(err)
		}
	}
	rename := func(path, to, text string) Change {
		return Change{Action: versionlog.Rename, Path: path, To: to, Content: []byte(text), Expect: versionlog.ExpectExists()}
	}
	put := func(path, text string) Change {
		return Change{Action: versionlog.Put, Path: path, Content: []byte(text), Expect: versionlog.ExpectAny()}
	}
	var warned []SecretsFound
	try := func(opts CommitOptions, changes ...Change) (*versionlog.Commit, error) {
		warned = nil
		opts.Warn = func(f SecretsFound) { warned = append(warned, f) }
		return s.Batch(t.Context(), changes, &opts)
	}
	passes := func(opts CommitOptions, wantWarned string, changes ...Change) {
		t.Helper()
		_, err := try(opts, changes...)
		var told []string
		for _, f := range warned {
			told = append(told, f.Path+": "+f.String())
		}
		if got := strings.Join(told, "\n"); err != nil || got != wantWarned {
			t.Errorf("it ends with %v and the warning %q, want %q", err, got, wantWarned)
		}
	}
	refused := func(opts CommitOptions, want string, changes ...Change) {
		t.Helper()
		c, err := try(opts, changes...)
		var refusal *SecretsError
		if !errors.As(err, &refusal) || !errors.Is(err, ErrSecrets) || errkind.Of(err) != errkind.Policy || c != nil || len(warned) > 0 {
			t.Fatalf("it ends with %v, %v and warnings %v", c, err, warned)
		}
		if !strings.HasSuffix(err.Error(), want) || strings.Contains(err.Error(), aKey[4:]) {
			t.Errorf("it says %q, want %q", err, want)
		}
	}
	confirmed := CommitOptions{Confirmed: true}
	const line2, line3 = "line 2 has what looks like a credential (aws-access-key-id)", "line 3 has what looks like a credential (aws-access-key-id)"

	passes(CommitOptions{}, "", put("/old", "id: "+aKey+"\n"))
	set(versionlog.SecretsWarn)
	passes(CommitOptions{}, "", put("/old", "first\nid: "+aKey+"\n"))
	passes(CommitOptions{}, "", put("/other", "no key"))
	passes(CommitOptions{}, "/warned: "+line2, put("/warned", "\n"+aKey))
	passes(CommitOptions{}, "", put("/warned", "\n"+aKey)) // it is there already
	passes(CommitOptions{}, "/old: "+line3+"\n/new: "+line2+", and there is another one", put("/old", "first\n"+aKey+"\n"+anotherKey), put("/new", "\n"+aKey+"\n"+anotherKey))

	set(versionlog.SecretsRefuse)
	passes(CommitOptions{}, "", put("/old", "second\n"+anotherKey+" "+aKey))
	passes(CommitOptions{}, "", put("/other", "still none"))
	refused(CommitOptions{}, "/other: "+line2, put("/fine", "none"), put("/other", "\n"+aKey))
	refused(CommitOptions{}, "/other: "+line2, rename("/other", "/another", "\n"+aKey))
	passes(CommitOptions{}, "", rename("/warned", "/had", "\n"+aKey+"\n"), rename("/other", "/none", "x"))
	passes(CommitOptions{}, "", rename("/had", "/warned", "\n"+aKey), rename("/none", "/other", "still none"))
	refused(CommitOptions{Restores: true}, "/other: "+line2, put("/other", "\n"+aKey))
	has, err := s.log.Head(t.Context(), info.ID, "/warned")
	if err != nil {
		t.Fatal(err)
	}
	again := Change{Action: versionlog.Put, Path: "/other", Source: &has, Expect: versionlog.ExpectAny()}
	refused(CommitOptions{}, "/other: "+line2, again) // of an earlier version
	if _, err := s.Head(t.Context(), "/fine"); !errors.Is(err, versionlog.ErrNotFound) {
		t.Errorf("of a refused commit there is /fine: %v", err)
	}
	if ok, err := blobs.Has(t.Context(), cas.Sum([]byte("\n"+aKey))); err != nil || !ok { // of /warned
		t.Fatalf("%v, %v", ok, err)
	}
	refused(CommitOptions{}, "/other: "+line2+", and there are 2 more", put("/other", "\n"+aKey+"\n"+anotherKey+"\n"+anotherKey+"\n"))
	if ok, _ := blobs.Has(t.Context(), cas.Sum([]byte("\n"+aKey+"\n"+anotherKey+"\n"+anotherKey+"\n"))); ok {
		t.Error("what was refused is stored")
	}
	passes(confirmed, "/other: "+line2, put("/other", "\n"+aKey))

	// A commit that was made, and is asked for again under its key, was not refused.
	key := versionlog.NewKey()
	set(versionlog.SecretsWarn)
	passes(CommitOptions{Key: key}, "/again: "+line2, put("/again", "\n"+aKey))
	set(versionlog.SecretsRefuse)
	passes(CommitOptions{}, "", put("/again", "without"))
	passes(CommitOptions{Key: key}, "", put("/again", "\n"+aKey))
	if _, data, err := s.Read(t.Context(), "/again"); err != nil || string(data) != "without" {
		t.Errorf("asking again has made %q, %v", data, err)
	}
	refused(CommitOptions{Key: versionlog.NewKey()}, "/again: "+line2, put("/again", "\n"+aKey))

	// Paths that are new, and messages, are texts of the history, too.
	const masked, inPath, inMessage = "/d/AKIA…/x", "the path has what looks like a credential (aws-access-key-id)", "the message has what looks like a credential (aws-access-key-id)"
	refused(CommitOptions{}, masked+": "+inPath, put("/d/"+aKey+"/x", "none"))
	refused(CommitOptions{}, masked+": "+inPath, Change{Action: versionlog.Rename, Path: "/again", To: "/d/" + aKey + "/x", Expect: versionlog.ExpectExists()})
	refused(CommitOptions{}, "/d/AKIA…/: "+inPath, Change{Action: versionlog.MakeDir, Path: "/d/" + aKey + "/", Expect: versionlog.ExpectAbsent()})
	refused(CommitOptions{Message: "with " + aKey}, "/again: "+inMessage, put("/again", "none"))
	_, err = s.Batch(t.Context(), []Change{put("/again", "none"), put("/d/"+aKey+"/x", "none")}, nil)
	if of, ok := errors.AsType[*ChangeError](err); !ok || of.Index != 1 {
		t.Errorf("of the second change: %+v", of)
	}
	passes(CommitOptions{Confirmed: true}, masked+": "+inPath, put("/d/"+aKey+"/x", "none"))
	passes(CommitOptions{}, "", put("/d/"+aKey+"/x", "some"))
	passes(CommitOptions{}, "", Change{Action: versionlog.Rename, Path: "/d/" + aKey + "/x", To: "/d/" + aKey + "/y", Expect: versionlog.ExpectExists()})
	passes(CommitOptions{}, "", Change{Action: versionlog.Remove, Path: "/d/" + aKey + "/y", Expect: versionlog.ExpectExists()})
	set(versionlog.SecretsWarn)
	passes(CommitOptions{Message: aKey}, "/again: "+inMessage, put("/again", "none"))

	set(versionlog.SecretsOff)
	passes(CommitOptions{Message: aKey}, "", put("/again", "\n"+aKey))
}
