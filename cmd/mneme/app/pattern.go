package app

import (
	"regexp"
	"sync"
)

// Pattern is a regular expression that is compiled at its first use. Most commands use
// none.
func Pattern(text string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(text) })
}
