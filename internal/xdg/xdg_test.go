package xdg

import (
	"errors"
	"strings"
	"testing"
)

func TestDirectories(t *testing.T) {
	for _, test := range []struct{ home, data, want string }{
		{"/h", "", "/h/.local/share/mneme"},
		{"/h", "/d", "/d/mneme"},
		{"/h", "relative", "/h/.local/share/mneme"},
		{"", "/d", "/d/mneme"},
		{"", "", ""},
		{"relative", "", ""},
	} {
		t.Setenv("HOME", test.home)
		t.Setenv("XDG_DATA_HOME", test.data)
		got, err := Data()
		if got != test.want || (err == nil) != (test.want != "") {
			t.Errorf("%+v: %q, %v", test, got, err)
		}
		if err != nil && (!errors.Is(err, ErrNoHome) || !strings.Contains(err.Error(), "$XDG_DATA_HOME")) {
			t.Errorf("%+v: %v", test, err)
		}
	}
	t.Setenv("HOME", "/h")
	t.Setenv("XDG_STATE_HOME", "")
	t.Setenv("XDG_CACHE_HOME", "")
	state, errState := State()
	cache, errCache := Cache()
	if state != "/h/.local/state/mneme" || cache != "/h/.cache/mneme" || errState != nil || errCache != nil {
		t.Errorf("%q, %v; %q, %v", state, errState, cache, errCache)
	}
}
