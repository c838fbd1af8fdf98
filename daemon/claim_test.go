package daemon

import (
	"errors"
	"os"
	"strings"
	"testing"
)

// TestClaimNamesTheCaller: the identity from STS is escaped, and is added only to the claim
// of the process that asked.
func TestClaimNamesTheCaller(t *testing.T) {
	dir, pid := t.TempDir(), os.Getpid()
	claim, err := Claim(dir, "s")
	if err != nil {
		t.Fatal(err)
	}
	defer claim.Close()
	refused := func() string {
		t.Helper()
		_, err := Claim(dir, "s")
		if !errors.Is(err, ErrInUse) || strings.ContainsAny(err.Error(), "\n\x1b") || len(err.Error()) > 2*maxCaller {
			t.Fatalf("claimed twice: %.2000q", err)
		}
		return err.Error()
	}
	if got := refused(); !strings.Contains(got, "of user ") || strings.Contains(got, "credentials") || strings.Contains(got, "mount of") {
		t.Errorf("before: %s", got)
	}
	for _, test := range []struct {
		pid          int
		caller, want string
	}{
		{pid, "arn:aws:iam::123456789012:user/long-name", `, with the credentials of "arn:aws:iam::123456789012:user/long-name"; a session`},
		{pid, "arn:aws:iam::123456789012:user/b", `, with the credentials of "arn:aws:iam::123456789012:user/b"; a session`},
		{pid + 1, "arn:aws:iam::123456789012:user/c", `, with the credentials of "arn:aws:iam::123456789012:user/b"; a session`},
		{pid, "\x1b[2J\n" + strings.Repeat("x", 1<<20), `, with the credentials of "\x1b[2J\nxxx`},
		{pid, "", " since "},
	} {
		if err := noteCaller(dir, "s", test.pid, test.caller); err != nil {
			t.Fatal(err)
		}
		if got := refused(); !strings.Contains(got, test.want) {
			t.Errorf("%.60q: %s, want %s", test.caller, got, test.want)
		}
		if info, err := claim.Stat(); err != nil || info.Size() > 3*maxCaller {
			t.Errorf("%.60q: the claim has %d bytes, %v", test.caller, info.Size(), err)
		}
	}
	if err := noteCaller(dir, "other", pid, "x"); err == nil {
		t.Error("a claim that is not there is noted in")
	}
}
