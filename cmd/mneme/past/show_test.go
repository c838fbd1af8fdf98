package past

import (
	"bufio"
	"bytes"
	"strings"
	"testing"

	"mneme/cas"
	"mneme/cas/memcas"
	"mneme/cmd/mneme/app"
	"mneme/cmd/mneme/term"
	"mneme/memory"
	"mneme/versionlog"
	"mneme/versionlog/memlog"
)

// TestShowDirectory: the version of a directory has no size and no hash.
func TestShowDirectory(t *testing.T) {
	log, blobs := memlog.New(nil), memcas.New()
	lib := memory.NewLibrary(log, func(string) (cas.Store, error) { return blobs, nil })
	info, err := lib.CreateStore(t.Context(), "notes", nil)
	if err != nil {
		t.Fatal(err)
	}
	st, err := lib.Open(t.Context(), info.ID, &memory.Author{Actor: app.UserActor()})
	if err != nil {
		t.Fatal(err)
	}
	v, err := st.MakeDir(t.Context(), "/d", versionlog.ExpectAbsent(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for json, want := range map[bool]string{false: "SHA-256   -\n", true: `"content_sha256":null,"content_size_bytes":null`} {
		var out bytes.Buffer
		a := &app.App{Console: &term.Console{Out: bufio.NewWriter(&out), JSON: json}}
		if err := showVersion(t.Context(), a, st, v); err != nil {
			t.Fatal(err)
		}
		_ = a.Out.Flush()
		if !strings.Contains(out.String(), want) {
			t.Errorf("shown as\n%s", out.String())
		}
	}
}
