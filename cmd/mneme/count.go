package main

import (
	"fmt"
	"strconv"
)

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
