package term

import (
	"fmt"
	"time"
)

// Period is a time above 0 with its unit, as people write it: 500ms, 1s, 2m.
type Period time.Duration

// UnmarshalText reads a period.
func (p *Period) UnmarshalText(text []byte) error {
	d, err := time.ParseDuration(string(text))
	if err != nil || d <= 0 {
		return fmt.Errorf("%q: want a time above 0 with its unit, such as 5s or 500ms", text)
	}
	*p = Period(d)
	return nil
}
