package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"

	"mneme/backend"
	"mneme/errkind"
	"mneme/finding"
	"mneme/memory"
	"mneme/verify"
	"mneme/versionlog"
	"mneme/witness"
)

// TestAdvice: of an error in whose place a person can do something, the text ends with
// what to type, however it is wrapped.
func TestAdvice(t *testing.T) {
	version := &memory.VersionRefError{Store: "notes", Path: "/it's", Ref: "x"}
	for _, test := range []struct {
		err  error
		want string // part of the advice; "" is none
	}{
		{backend.ErrNoStores, "`mneme store create NAME`"},
		{memory.ErrNoStore, "`mneme store list`"},
		{backend.ErrMissing, "`mneme setup`"},
		{backend.ErrNotSetUp, "`mneme fsck --rebuild-index`"},
		{backend.ErrOlder, "`mneme setup`"},
		{backend.ErrOtherPlace, "`mneme setup --move`"},
		{backend.ErrOtherOwner, "--bucket-owner"},
		{backend.ErrNotAllowed, "`mneme setup --print`"},
		{backend.ErrPlainHTTP, "--insecure"},
		{backend.ErrIndex, "`mneme fsck --rebuild-index`"},
		{&witness.MissingError{Store: "notes", What: "x"}, "`mneme fsck notes --accept-loss`"},
		{versionlog.ErrRewritten, "`mneme fsck` says more"},
		{versionlog.ErrCorrupt, "`mneme fsck`"},
		{version, "`mneme log "},
		{versionlog.ErrNotFound, ""},
		{versionlog.ErrConflict, ""},
		{fs.ErrPermission, ""},
		{context.Canceled, ""},
		{advised{versionlog.ErrCorrupt}, ""},
		{ErrDamaged, ""},
	} {
		for _, err := range []error{test.err, fmt.Errorf("open store notes: %w", test.err), errors.Join(test.err, errors.New("close"))} {
			got := advice(err)
			if (got == "") != (test.want == "") || !strings.Contains(got, test.want) {
				t.Errorf("%v: advice %q, want %q", err, got, test.want)
			}
			if text := WithAdvice(err); !strings.HasPrefix(text, err.Error()) || strings.HasSuffix(text, "; ") {
				t.Errorf("%v: the text is %q", err, text)
			}
		}
	}
}

// TestAdviceKeepsKinds: what wraps an error for its advice does not change its exit code.
func TestAdviceKeepsKinds(t *testing.T) {
	for _, err := range []error{advised{versionlog.ErrCorrupt}, memory.ErrNoStore, backend.ErrNoStores, backend.ErrIndex, &memory.VersionRefError{}} {
		if k := errkind.Of(err); k == errkind.Unknown {
			t.Errorf("%v has no kind", err)
		}
	}
	if !errors.Is(backend.ErrIndex, versionlog.ErrRewritten) || !errors.Is(memory.ErrNoStore, versionlog.ErrNotFound) {
		t.Error("an error is not the one that it is about")
	}
}

func TestAdviseDeletion(t *testing.T) {
	for of, want := range map[error]string{
		backend.ErrLeft:        "`mneme store delete memstore_1 --yes`",
		backend.ErrRebuilding:  "`mneme fsck memstore_1 --rebuild-index`",
		versionlog.ErrArchived: "",
	} {
		err := fmt.Errorf("delete: %w", of)
		got := AdviseDeletion(err, "memstore_1")
		if !errors.Is(got, of) || !strings.Contains(got.Error(), want) || want == "" && got != err {
			t.Errorf("%v: %v, want %q", of, got, want)
		}
	}
}

// TestAdviseProblem: what mends a store is said with the command that does it.
func TestAdviseProblem(t *testing.T) {
	locate := func(url string) *backend.Location {
		at, err := backend.Locate(url)
		if err != nil {
			t.Fatal(err)
		}
		return at
	}
	local, remote := locate("file:///x"), locate("aws://bucket?table=mneme")
	v := versionlog.Version{Path: "/a b"}
	for _, test := range []struct {
		at   *backend.Location
		p    verify.Problem
		want string
	}{
		{remote, verify.Problem{Kind: backend.ProblemIndex, Do: "rebuild the index"}, "rebuild the index: `mneme fsck --rebuild-index`"},
		{remote, verify.Problem{Kind: backend.ProblemIndex, Finding: finding.BucketErased, Do: "x"}, "x: `mneme redact notes VERSION… --reason WHY`"},
		{local, verify.Problem{Kind: backend.ProblemIndex, Do: "x"}, "x"},
		{local, verify.Problem{Kind: verify.ProblemRecord, Do: "x"}, "x"},
		{local, verify.Problem{Kind: verify.ProblemBlob, Do: "x", Version: v}, "x (`mneme write notes:/restored`)"},
		{local, verify.Problem{Kind: verify.ProblemBlob, Do: "x", Version: v, Current: true}, "`mneme restore 'notes:/a b' VERSION`"},
	} {
		if got := AdviseProblem(test.at, "notes", test.p); !strings.Contains(got, test.want) {
			t.Errorf("%+v: %q, want %q", test.p, got, test.want)
		}
	}
}
