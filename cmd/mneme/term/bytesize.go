package term

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// ByteSize is a number of bytes as people write it: 500MB, 2GiB, 1.5g, 4096.
type ByteSize int64

// byteUnits are factors by the unit, in lower case and without its final b. Units with an i
// are powers of 1024.
var byteUnits = map[string]float64{
	"": 1, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12,
	"ki": 1 << 10, "mi": 1 << 20, "gi": 1 << 30, "ti": 1 << 40,
}

// UnmarshalText reads a size.
func (s *ByteSize) UnmarshalText(text []byte) error {
	wrong := fmt.Errorf("%q: want a number of bytes such as 500MB or 2GiB", text)
	number := strings.TrimRightFunc(string(text), func(r rune) bool { return r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z' || r == ' ' })
	unit := strings.TrimSpace(string(text)[len(number):])
	factor, ok := byteUnits[strings.TrimSuffix(strings.ToLower(unit), "b")]
	if !ok || strings.ContainsAny(number, "xXpP_eE+ ") {
		return wrong
	}
	n, err := strconv.ParseFloat(number, 64)
	if err != nil || n < 0 || n*factor >= math.MaxInt64 || factor == 1 && n != math.Trunc(n) {
		return wrong
	}
	*s = ByteSize(n * factor)
	return nil
}
