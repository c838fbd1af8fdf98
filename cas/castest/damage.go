package castest

import (
	"bytes"
	"testing"

	"mneme/cas"
)

// damages returns ways in which stored bytes go bad, none of which yields data.
func damages(data []byte) map[string][]byte {
	flipped := bytes.Clone(data)
	flipped[len(flipped)/2] ^= 1
	return map[string][]byte{
		"one bit":        flipped,
		"truncated":      data[:len(data)-1],
		"cut to nothing": {},
		"longer":         append(bytes.Clone(data), 0),
		"zeroes":         make([]byte, len(data)),
		"other blob":     []byte("the good bytes of some other blob"),
	}
}

func (c Config) testDamage(t *testing.T, s cas.Store) {
	data := []byte("good bytes that go bad")
	for name, bad := range damages(data) {
		t.Run(name, func(t *testing.T) {
			d := put(t, s, data)
			wantData(t, s, d, data)
			c.Corrupt(t, s, d, bad)
			wantGetError(t, s, d, cas.ErrCorrupt)
			wantGetError(t, s, d, cas.ErrCorrupt)
			wantHas(t, s, d, true)
		})
	}
	t.Run("empty blob", func(t *testing.T) {
		d := put(t, s, nil)
		c.Corrupt(t, s, d, []byte("not empty"))
		wantGetError(t, s, d, cas.ErrCorrupt)
	})
}

func (c Config) testRepair(t *testing.T, s cas.Store) {
	data := []byte("good bytes that go bad and are put again")
	for name, bad := range damages(data) {
		t.Run(name, func(t *testing.T) {
			d := put(t, s, data)
			c.Corrupt(t, s, d, bad)
			put(t, s, data)
			wantData(t, s, d, data)
			if c.Reopen != nil {
				wantData(t, c.Reopen(t, s), d, data)
			}
		})
	}
}

func (c Config) testDamageSeenByOthers(t *testing.T, s cas.Store) {
	data := []byte("good bytes that go bad for everyone")
	d := put(t, s, data)
	c.Corrupt(t, s, d, []byte("bad"))
	wantGetError(t, c.Reopen(t, s), d, cas.ErrCorrupt)
}
