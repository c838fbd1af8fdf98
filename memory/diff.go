package memory

import (
	"bytes"
	"fmt"

	"github.com/aymanbagabas/go-udiff"
)

// Diff returns the unified diff that turns a into b, with three lines of
// context, "" when they are equal. Of content that is not text it says only
// that it differs.
func Diff(nameA, nameB string, a, b []byte) string {
	if bytes.Equal(a, b) {
		return ""
	}
	if !IsText(a) || !IsText(b) {
		return fmt.Sprintf("Binary content of %s and %s differs\n", nameA, nameB)
	}
	return udiff.Unified(nameA, nameB, string(a), string(b))
}
