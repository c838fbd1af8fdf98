package transfer

import (
	"testing"
	"time"
)

// TestExpiryOf: an expiry is a day, the same one for all that is made on a day.
func TestExpiryOf(t *testing.T) {
	now := time.Date(2026, 11, 26, 23, 30, 0, 0, time.FixedZone("", 3600))
	for text, want := range map[string]string{
		"30d": "2026-12-26", "1d": "2026-11-27", "2027-01-02": "2027-01-02", "never": "0001-01-01",
		"0d": "", "-1d": "", "1.5d": "", "99999d": "", "2026-11-26": "", "": "", "30": "", "tomorrow": "",
	} {
		at, err := expiryOf(text, now)
		if (err != nil) != (want == "") || err == nil && at.Format(time.DateOnly) != want {
			t.Errorf("%q: %v, %v; want %s", text, at, err, want)
		}
	}
}
