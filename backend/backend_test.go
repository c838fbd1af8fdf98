package backend

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mneme/errkind"
	"mneme/internal/testing/skip"
	"mneme/versionlog"
)

// TestLocate: a URL that is one is put into its usual form; of any other the error says
// which would be right, and repeats no password.
func TestLocate(t *testing.T) {
	const forms = "; want file:///absolute/path or aws://BUCKET?table=TABLE or https://HOST[:PORT] or http://HOST[:PORT] or http+unix:///absolute/path"
	for _, test := range []struct{ url, want, err string }{
		{"file:///a/b", "file:///a/b", ""},
		{"file:///a/./b/../c/", "file:///a/c", ""},
		{"file:///with%20space%3F", "file:///with%20space%3F", ""},
		{"aws://bucket?table=mneme", "aws://bucket?table=mneme", ""},
		{"aws://bucket/?table=mneme", "aws://bucket?table=mneme", ""},
		{"https://Memory.Internal/", "https://memory.internal", ""},
		{"http://127.0.0.1:7070/base/", "http://127.0.0.1:7070/base", ""},
		{"http+unix:///run/./mneme.sock", "http+unix:///run/mneme.sock", ""},

		{"", "", `store URL "": it is empty` + forms},
		{"a/b", "", "it has no scheme" + forms},
		{"/a/b", "", "it has no scheme; want file:///a/b"},
		{"gopher://example.com", "", `there is no backend "gopher"` + forms},
		{"file:///%zz", "", "it is no URL" + forms},
		{"file:a", "", "it has no absolute path; want file:///absolute/path"},
		{"file://a/b", "", `"a" stands where a host would`},
		{"file:///a%00", "", "it has no absolute path"},
		{"file:///a#b", "", "a query or fragment"},
		{"file://user:secret@/a", "", "user name or credentials in it"},
		{"aws://key:secret@bucket?table=mneme", "", `"aws://…@bucket"`},
		{"https://u:secret@host", "", "user name or credentials in it"},
		{"https://host?x=1", "", "a query or fragment; want https://HOST[:PORT]"},
		{"https:///x", "", "it names no host"},
		{"http://host:0", "", `"0" is no port`},
		{"http+unix://host/x", "", "no absolute path of a socket"},
		{"aws:bucket", "", "it names no bucket; want aws://BUCKET?table=TABLE"},
		{"aws://bucket", "", "it names no table; want aws://BUCKET?table=TABLE"},
		{"aws://bucket/notes?table=mneme", "", `it has a path, "/notes"`},
		{"aws://bucket?table=mneme&table=other", "", "it names 2 tables"},
		{"aws://bucket?table=mneme&region=x", "", `no setting "region"`},
		{"aws://B?table=mneme", "", `"B" is no bucket's name`},
		{"aws://bucket?table=m", "", `"m" is no table's name`},
	} {
		at, err := Locate(test.url)
		if test.err == "" {
			if err != nil || at.URL != test.want {
				t.Errorf("%q: %v, %v; want %s", test.url, at, err, test.want)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), test.err) || errkind.Of(err) != errkind.Invalid || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v, want an error with %q", test.url, err, test.err)
		}
	}
}

// TestSchemes: what a backend has of optional parts is what its stores need.
func TestSchemes(t *testing.T) {
	for url, want := range map[string]struct{ local, setup, rebuild, backup bool }{
		"file:///a":                {local: true, backup: true},
		"aws://bucket?table=mneme": {setup: true, rebuild: true},
		"https://memory.internal":  {},
	} {
		at, err := Locate(url)
		if err != nil {
			t.Fatal(err)
		}
		if at.Dir != "" != want.local || at.Setup != nil != want.setup || at.Recovery.Rebuild != nil != want.rebuild || at.Recovery.Backup != nil != want.backup {
			t.Errorf("%s: %+v, want %+v", url, at, want)
		}
		if (at.Recovery.Losses == nil) != (at.Recovery.AcceptLosses == nil) {
			t.Errorf("%s tells of losses and cannot accept them, or the other way round", url)
		}
	}
}

// TestNothingThere: looking makes nothing, and what is not there is not found.
func TestNothingThere(t *testing.T) {
	home := t.TempDir()
	for _, variable := range []string{"XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"} {
		t.Setenv(variable, filepath.Join(home, variable))
	}
	url, err := DefaultURL()
	if err != nil {
		t.Fatal(err)
	}
	at, err := Locate(url)
	if err != nil {
		t.Fatal(err)
	}
	_, openErr := at.Open(t.Context(), nil)
	for _, err := range []error{at.Check(), openErr} {
		if !errors.Is(err, ErrNoStores) || !errors.Is(err, versionlog.ErrNotFound) || errkind.Of(err) != errkind.NotFound {
			t.Errorf("where nothing is: %v", err)
		}
	}
	if made, err := os.ReadDir(home); err != nil || len(made) > 0 {
		t.Errorf("looking made %v, %v", made, err)
	}
	lib, err := at.Open(t.Context(), &Options{Create: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(at.Check(), lib.Close()); err != nil {
		t.Error(err)
	}
}

// TestConflictsDir: conflicts lie beside the stores of a directory, else with the user;
// where the directory's place makes no sense, nothing is opened but for verifying.
func TestConflictsDir(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("XDG_STATE_HOME", "/state")
	of := func(url string) string {
		at, err := Locate(url)
		if err != nil {
			t.Fatal(err)
		}
		conflicts, err := at.ConflictsDir()
		if err != nil {
			return errkind.Of(err).String()
		}
		return conflicts
	}
	for _, test := range []struct{ variable, file, aws string }{
		{"", dir + "/conflicts", "/state/mneme/conflicts"},
		{"/c", "/c", "/c"},
		{"c", "invalid", "invalid"},
	} {
		t.Setenv(ConflictsVariable, test.variable)
		if file, aws := of("file://"+dir), of("aws://bucket?table=mneme"); file != test.file || aws != test.aws {
			t.Errorf("$%s=%s: %s and %s, want %s and %s", ConflictsVariable, test.variable, file, aws, test.file, test.aws)
		}
	}
	if _, err := Open(t.Context(), "file://"+dir, &Options{Create: true}); errkind.Of(err) != errkind.Invalid {
		t.Errorf("opened: %v", err)
	}
	lib, err := Open(t.Context(), "file://"+dir, &Options{Create: true, Direct: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := lib.Close(); err != nil {
		t.Error(err)
	}
}

// TestConflictsOfOthers: root keeps no conflicts where another user may change them, and
// reads all the same.
func TestConflictsOfOthers(t *testing.T) {
	if os.Getuid() != 0 {
		skip.Because(t, "only root can give a directory away")
	}
	dir, conflicts := t.TempDir(), t.TempDir()
	if err := os.Chown(conflicts, 3002, 3002); err != nil {
		t.Fatal(err)
	}
	lib, err := Open(t.Context(), "file://"+dir, &Options{Create: true})
	if err == nil {
		err = lib.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(ConflictsVariable, conflicts)
	if _, err := Open(t.Context(), "file://"+dir, nil); errkind.Of(err) != errkind.Denied || !strings.HasSuffix(err.Error(), "$MNEME_CONFLICTS names another directory") {
		t.Errorf("for writing: %v", err)
	}
	for _, opts := range []Options{{ReadOnly: true}, {Direct: true}} {
		lib, err := Open(t.Context(), "file://"+dir, &opts)
		if err == nil {
			err = lib.Close()
		}
		if err != nil {
			t.Errorf("%+v: %v", opts, err)
		}
	}
}
