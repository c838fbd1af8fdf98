package history

import (
	"bytes"
	"fmt"

	"github.com/aymanbagabas/go-udiff"

	"mneme/memory"
)

// Diff returns the unified diff that turns a into b, with three lines of
// context, "" when they are equal. Of content that is not text it says only
// that it differs.
func Diff(nameA, nameB string, a, b []byte) string {
	if bytes.Equal(a, b) {
		return ""
	}
	if !memory.IsText(a) || !memory.IsText(b) {
		return fmt.Sprintf("Binary content of %s and %s differs\n", nameA, nameB)
	}
	return udiff.Unified(nameA, nameB, string(a), string(b))
}
