package main

import (
	"fmt"
	"time"
)

// period is a time above 0 with its unit, as people write it: 500ms, 1s, 2m.
type period time.Duration

// UnmarshalText reads a period.
func (p *period) UnmarshalText(text []byte) error {
	d, err := time.ParseDuration(string(text))
	if err != nil || d <= 0 {
		return fmt.Errorf("%q: want a time above 0 with its unit, such as 5s or 500ms", text)
	}
	*p = period(d)
	return nil
}
