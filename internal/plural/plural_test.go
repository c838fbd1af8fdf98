package plural

import "testing"

func TestOf(t *testing.T) {
	for want, got := range map[string]string{
		"0 files": Of(0, "file"), "1 file": Of(int64(1), "file"), "2 files": Of(2, "file"),
		"0 memories": Of(0, "memory"), "1 memory": Of(1, "memory"), "2 memories": Of(2, "memory"), "2 days": Of(2, "day"),
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
