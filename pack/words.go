package pack

import (
	"strconv"
	"strings"

	"mneme/internal/quote"
)

// maxWord bounds, in bytes, what is shown of a word that is no path: a slug or an actor.
const maxWord = 255

// maxEscape is how much longer quoting makes a text: a byte becomes \x1b.
const maxEscape = 4

// memories counts memories in words.
func memories(n int) string {
	if n == 1 {
		return "1 memory"
	}
	return strconv.Itoa(n) + " memories"
}

// shown returns a text that others chose as one word: as it is if it cannot be taken for
// anything else, otherwise in double quotes.
func shown(text string) string {
	if text == "" || len(text) > quote.MaxName || strings.ContainsAny(text, ` "\`) || quote.Text(text) != text {
		return quote.Name(text)
	}
	return text
}

// word is shown for a text that is no path, and takes maxWord bytes at most. Of a longer one
// it has the beginning.
func word(text string) string {
	if whole := shown(text); len(whole) <= maxWord {
		return whole
	}
	beginning := text[:min(len(text), maxWord/maxEscape-len(`""…`))]
	return shown(strings.ToValidUTF8(beginning, "") + "…")
}
