package term

import "testing"

func TestByteSize(t *testing.T) {
	for text, want := range map[string]int64{
		"0": 0, "4096": 4096, "500MB": 500e6, "2GiB": 2 << 30, "1.5g": 1.5e9, "1 kB": 1000, "3Ki": 3072, "1T": 1e12, "7b": 7,
		"": -1, "MB": -1, "-1": -1, "1.2.3": -1, "1XB": -1, "0x10": -1, "1e9": -1, "NaN": -1, "inf": -1, "99999999T": -1, "1iB": -1, "1_0": -1, "+1": -1, "0.4": -1, "1.5": -1, "1.5b": -1,
	} {
		var got ByteSize
		err := got.UnmarshalText([]byte(text))
		if (err != nil) != (want < 0) || err == nil && int64(got) != want {
			t.Errorf("%q is %d, %v; want %d", text, got, err, want)
		}
	}
}
