package daemon

import (
	"strings"
	"testing"

	"mneme/errkind"
)

func TestHelperArgs(t *testing.T) {
	for _, tc := range []struct {
		args, want string
		fake       bool
	}{
		{"notes /mnt/memory", "mount --background --at /mnt/memory notes", false},
		{"notes,book:ro /m -s -o rw,session=a1,_netdev,strict,owner=1000:1000,x-systemd.automount", "mount --background --at /m notes book:ro --session=a1 --strict --owner=1000:1000", false},
		{"notes /m -o ro,noauto,user,owner,comment=x -v", "mount --background --at /m notes --read-only", false},
		{"notes /m -fn -t mneme -N 1", "mount --background --at /m notes", true},
		{"notes", "", false},
		{"notes /m -o", "", false},
		{"notes /m --bad", "", false},
	} {
		got, fake, err := helperArgs(strings.Fields(tc.args))
		if (err != nil) != (tc.want == "") || err != nil && errkind.Of(err) != errkind.Invalid || strings.Join(got, " ") != tc.want || fake != tc.fake {
			t.Errorf("%s: %q, %v, %v", tc.args, got, fake, err)
		}
	}
}
