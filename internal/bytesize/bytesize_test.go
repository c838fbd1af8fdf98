package bytesize

import "testing"

func TestText(t *testing.T) {
	for n, want := range map[uint64]string{
		0: "0 B", 999: "999 B", 1000: "1.00 kB", 1234: "1.23 kB", 45_600: "45.6 kB", 999_400: "999 kB",
		999_600: "1.00 MB", 12_345_678: "12.3 MB", 1 << 40: "1.10 TB",
	} {
		if got := Text(n); got != want {
			t.Errorf("%d is %q, want %q", n, got, want)
		}
	}
}
