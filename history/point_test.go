package history_test

import (
	"errors"
	"testing"
	"time"

	"mneme/cas"
	"mneme/cas/memcas"
	"mneme/history"
	"mneme/internal/testing/memtest"
	"mneme/memory"
	"mneme/versionlog"
	"mneme/versionlog/memlog"
)

// berlin has a day of 25 hours, 2026-10-25.
var berlin = func() *time.Location {
	winter := time.FixedZone("CET", 3600)
	if l, err := time.LoadLocation("Europe/Berlin"); err == nil {
		return l
	}
	return winter
}()

func TestParseTime(t *testing.T) {
	now := time.Date(2026, 11, 26, 16, 30, 0, 0, berlin)
	at := func(text string) time.Time {
		t.Helper()
		at, err := time.Parse(time.RFC3339Nano, text)
		if err != nil {
			t.Fatal(err)
		}
		return at
	}
	for _, test := range []struct{ text, first, last string }{
		{"2026-11-20T15:04:05Z", "2026-11-20T15:04:05Z", "2026-11-20T15:04:05.999999999Z"},
		{"2026-11-20T15:04:05+02:00", "2026-11-20T13:04:05Z", "2026-11-20T13:04:05.999999999Z"},
		{"2026-11-20T15:04:05.25Z", "2026-11-20T15:04:05.25Z", "2026-11-20T15:04:05.25Z"},
		{"2026-11-20T15:04:05", "2026-11-20T14:04:05Z", "2026-11-20T14:04:05.999999999Z"},
		{"2026-11-20 15:04:05", "2026-11-20T14:04:05Z", "2026-11-20T14:04:05.999999999Z"},
		{"2026-11-20 15:04:05.5", "2026-11-20T14:04:05.5Z", "2026-11-20T14:04:05.5Z"},
		{"2026-11-20t15:04:05z", "2026-11-20T15:04:05Z", "2026-11-20T15:04:05.999999999Z"},
		{"2026-11-20 15:04:05Z", "2026-11-20T15:04:05Z", "2026-11-20T15:04:05.999999999Z"},
		{"2026-11-20 15:04:05.5z", "2026-11-20T15:04:05.5Z", "2026-11-20T15:04:05.5Z"},
		{"2026-11-20T15:04:05+0200", "2026-11-20T13:04:05Z", "2026-11-20T13:04:05.999999999Z"},
		{"2026-11-20 15:04:05-02:00", "2026-11-20T17:04:05Z", "2026-11-20T17:04:05.999999999Z"},
		{"2026-11-20T15:04Z", "2026-11-20T15:04:00Z", "2026-11-20T15:04:59.999999999Z"},
		{"2026-11-20 15:04+02:00", "2026-11-20T13:04:00Z", "2026-11-20T13:04:59.999999999Z"},
		{"2026-11-20t15:04-0200", "2026-11-20T17:04:00Z", "2026-11-20T17:04:59.999999999Z"},
		{"15:04:05", "2026-11-26T14:04:05Z", "2026-11-26T14:04:05.999999999Z"},
		{"15:04", "2026-11-26T14:04:00Z", "2026-11-26T14:04:59.999999999Z"},
		{"2026-11-20 15:04", "2026-11-20T14:04:00Z", "2026-11-20T14:04:59.999999999Z"},
		{"2026-11-20T15:04", "2026-11-20T14:04:00Z", "2026-11-20T14:04:59.999999999Z"},
		{"2026-11-20", "2026-11-19T23:00:00Z", "2026-11-20T22:59:59.999999999Z"},
		{"today", "2026-11-25T23:00:00Z", "2026-11-26T22:59:59.999999999Z"},
		{"yesterday", "2026-11-24T23:00:00Z", "2026-11-25T22:59:59.999999999Z"},
		{"now", "2026-11-26T15:30:00Z", "2026-11-26T15:30:00Z"},
		{"2h", "2026-11-26T13:30:00Z", "2026-11-26T13:30:00Z"},
		{"1h30m", "2026-11-26T14:00:00Z", "2026-11-26T14:00:00Z"},
		{"3d", "2026-11-23T15:30:00Z", "2026-11-23T15:30:00Z"},
		{"1w", "2026-11-19T15:30:00Z", "2026-11-19T15:30:00Z"},
	} {
		first, last, err := history.ParseTime(test.text, now)
		if err != nil || !first.Equal(at(test.first)) || !last.Equal(at(test.last)) {
			t.Errorf("%q: %v to %v, %v; want %s to %s", test.text, first.UTC(), last.UTC(), err, test.first, test.last)
		}
	}
	for _, bad := range []string{
		"", "0", "7", "-2h", "2", "h", "d", "-1d", "1.5d", "9223372036854775807d", "2147483647w", "2026-13-01",
		"2026-11-20T15:04:05Zx", "2026-11-20  15:04", "2026-11-20 15:04:05 Z", "2026-11-20z", "25:00", "15:04:05:06", "15:04:05Z", "2026-11-20 ", "2026-11-20 25:00", "tomorrow", "HEAD", "\x1b[2J",
	} {
		if first, last, err := history.ParseTime(bad, now); !errors.Is(err, history.ErrBadPoint) {
			t.Errorf("%q: %v to %v, %v; want ErrBadPoint", bad, first, last, err)
		}
	}
}

// TestParseTimeOfLongDay: a day ends where the next one begins.
func TestParseTimeOfLongDay(t *testing.T) {
	if berlin.String() != "Europe/Berlin" {
		t.Skip("this machine does not know when clocks are put back")
	}
	now := time.Date(2026, 10, 26, 12, 0, 0, 0, berlin)
	first, last, err := history.ParseTime("yesterday", now)
	if took := last.Sub(first); err != nil || took != 25*time.Hour-1 {
		t.Errorf("the day took %v, %v", took, err)
	}
}

func TestResolvePoint(t *testing.T) {
	clock := time.Date(2026, 11, 20, 10, 0, 0, 500_000_000, time.UTC)
	log, blobs := memlog.New(&memlog.Options{Now: func() time.Time { return clock }}), memcas.New()
	lib := memory.NewLibrary(log, func(string) (cas.Store, error) { return blobs, nil })
	info, err := lib.CreateStore(t.Context(), "notes", nil)
	if err != nil {
		t.Fatal(err)
	}
	st, err := lib.Open(t.Context(), info.ID, memtest.Author)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 11, 26, 16, 30, 0, 0, time.UTC)
	resolve := func(text string) (uint64, error) {
		t.Helper()
		p, err := history.ParsePoint(text, now)
		if err != nil {
			t.Fatal(err)
		}
		if p.String() != text {
			t.Errorf("%q is shown as %q", text, p)
		}
		return history.ResolvePoint(t.Context(), st, p)
	}
	for _, text := range []string{"0", "HEAD", "HEAD~0", "now", "2026-11-20"} { // an empty store
		if seq, err := resolve(text); err != nil || seq != 0 {
			t.Errorf("in an empty store %q is %d, %v", text, seq, err)
		}
	}
	for i, path := range []string{"/a", "/b", "/c"} { // one a day
		if i > 0 {
			clock = clock.AddDate(0, 0, 1)
		}
		if _, err := st.Write(t.Context(), path, nil, versionlog.ExpectAbsent()); err != nil {
			t.Fatal(err)
		}
	}
	for text, want := range map[string]uint64{
		"0": 0, "1": 1, "3": 3, "HEAD": 3, "HEAD~0": 3, "HEAD~": 2, "HEAD~1": 2, "HEAD~3": 0,
		"2026-11-19": 0, "2026-11-20": 1, "2026-11-21": 2, "2026-11-22": 3, "2026-11-20 09:59": 0,
		"2026-11-20T10:00:00Z":     1, // as it is printed, though it was half a second later
		"2026-11-20T10:00:00.499Z": 0, "2026-11-20T10:00:00.5Z": 1, "yesterday": 3, "2h": 3, "5d": 2, "9999-12-31": 3, "0001-01-01": 0,
	} {
		if seq, err := resolve(text); err != nil || seq != want {
			t.Errorf("%q is %d, %v; want %d", text, seq, err, want)
		}
	}
	for _, text := range []string{"4", "HEAD~4", "18446744073709551615", "HEAD~18446744073709551615"} {
		if seq, err := resolve(text); !errors.Is(err, versionlog.ErrNotFound) {
			t.Errorf("%q is %d, %v; want ErrNotFound", text, seq, err)
		}
	}
	for _, bad := range []string{"", "-1", "+1", "HEAD~-1", "HEAD~+1", "HEAD^", "HEAD~x", "HEADS", "head", "18446744073709551616", "1.5", "\u202e1"} {
		if p, err := history.ParsePoint(bad, now); !errors.Is(err, history.ErrBadPoint) {
			t.Errorf("%q is %v, %v; want ErrBadPoint", bad, p, err)
		}
	}
}

// TestFixed: a point that is read again by another process later is the same only if its text
// says all of it.
func TestFixed(t *testing.T) {
	now := time.Date(2026, 11, 26, 16, 30, 0, 0, berlin)
	for text, want := range map[string]bool{
		"7": true, "2026-11-20": true, "2026-11-20 15:04": true, "2026-11-26T15:29:00Z": true,
		"HEAD": false, "HEAD~3": false, "now": false, "today": false, "yesterday": false, "3d": false, "15:04": false,
		"2026-11-26": false, "2027-01-01": false, // which is not over
	} {
		p, err := history.ParsePoint(text, now)
		if err != nil || p.Fixed(now) != want {
			t.Errorf("%s: %v, %v", text, p.Fixed(now), err)
		}
	}
}
