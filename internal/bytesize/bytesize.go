// Package bytesize writes numbers of bytes for people.
package bytesize

import (
	"fmt"
	"strconv"
)

// Text writes a size with three digits and a decimal unit: 999 B, 1.23 kB, 45.6 MB.
func Text(n uint64) string {
	if n < 1000 {
		return fmt.Sprintf("%d B", n)
	}
	value, units := float64(n), "kMGTPE"
	for value /= 1000; value >= 999.5 && len(units) > 1; value /= 1000 {
		units = units[1:]
	}
	return strconv.FormatFloat(value, 'f', max(0, 2-len(strconv.Itoa(int(value)))+1), 64) + " " + units[:1] + "B"
}
