package term

import (
	"fmt"
	"strconv"
)

// Bound is a whole number of 0 or more.
type Bound int64

// UnmarshalText reads a number.
func (b *Bound) UnmarshalText(text []byte) error {
	n, err := strconv.ParseInt(string(text), 10, 64)
	if err != nil || n < 0 {
		return fmt.Errorf("%q: want a whole number of 0 or more", text)
	}
	*b = Bound(n)
	return nil
}

// Count is a whole number of 1 or more.
type Count int

// UnmarshalText reads a number.
func (c *Count) UnmarshalText(text []byte) error {
	n, err := strconv.Atoi(string(text))
	if err != nil || n < 1 {
		return fmt.Errorf("%q: want a whole number of 1 or more", text)
	}
	*c = Count(n)
	return nil
}
