package memory

import (
	"bytes"
	"fmt"
	"unicode/utf8"

	"github.com/aymanbagabas/go-udiff"
)

// Diff returns the unified diff that turns a into b, with three lines of
// context, "" when they are equal. Of content that is not text it says only
// that it differs.
func Diff(nameA, nameB string, a, b []byte) string {
	if bytes.Equal(a, b) {
		return ""
	}
	if !isText(a) || !isText(b) {
		return fmt.Sprintf("Binary content of %s and %s differs\n", nameA, nameB)
	}
	return udiff.Unified(nameA, nameB, string(a), string(b))
}

func isText(data []byte) bool { return utf8.Valid(data) && bytes.IndexByte(data, 0) < 0 }
