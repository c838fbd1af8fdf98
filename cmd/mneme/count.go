package main

import (
	"fmt"
	"strconv"
)

// bound is a whole number of 0 or more.
type bound int64

// UnmarshalText reads a number.
func (b *bound) UnmarshalText(text []byte) error {
	n, err := strconv.ParseInt(string(text), 10, 64)
	if err != nil || n < 0 {
		return fmt.Errorf("%q: want a whole number of 0 or more", text)
	}
	*b = bound(n)
	return nil
}

// count is a whole number of 1 or more.
type count int

// UnmarshalText reads a number.
func (c *count) UnmarshalText(text []byte) error {
	n, err := strconv.Atoi(string(text))
	if err != nil || n < 1 {
		return fmt.Errorf("%q: want a whole number of 1 or more", text)
	}
	*c = count(n)
	return nil
}
