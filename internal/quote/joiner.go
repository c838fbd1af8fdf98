package quote

import (
	"unicode"
	"unicode/utf8"

	"golang.org/x/net/idna"
)

// The two joiners have no width. Between the right neighbours they change how
// these look: Persian and Hindi words and joined emoji are spelled with them.
// Anywhere else they make names that look equal and are not.
const (
	zwnj = '\u200c' // ZERO WIDTH NON-JOINER
	zwj  = '\u200d' // ZERO WIDTH JOINER
)

// contextJ checks the rules of RFC 5892, appendices A.1 and A.2, for the joiners
// in a word.
var contextJ = idna.New(idna.CheckJoiners(true))

// longestWord bounds, in bytes to each side, how much of a word is looked at.
const longestWord = 512

// IsJoiner reports whether r is one of the two joiners.
func IsJoiner(r rune) bool { return r == zwj || r == zwnj }

// Joins reports whether the joiner at s[at:] stands where it has an effect:
// between two emoji; behind a virama; or, one that keeps letters apart, between
// two letters that would be joined. The last of these letters must exist.
func Joins(s string, at int) bool {
	r, size := utf8.DecodeRuneInString(s[at:])
	start := max(0, at-longestWord)
	name := s[start:min(len(s), at+size+longestWord)]
	at -= start
	before, after := name[:at], name[at+size:]
	if r == zwj && endsInEmoji(before) && startsWithEmoji(after) {
		return true
	}
	next, _ := utf8.DecodeRuneInString(after)
	if r == zwnj && !inWord(next) {
		return false
	}
	for before != "" {
		r, size := utf8.DecodeLastRuneInString(before)
		if !inWord(r) && r != zwnj && r != zwj {
			break
		}
		before = before[:len(before)-size]
	}
	end := at
	for i, r := range name[at:] {
		if !inWord(r) && r != zwnj && r != zwj {
			break
		}
		end = at + i + utf8.RuneLen(r)
	}
	_, err := contextJ.ToUnicode(name[len(before):end])
	return err == nil
}

// inWord reports whether r can be a part of a word.
func inWord(r rune) bool { return unicode.IsLetter(r) || unicode.IsMark(r) }

// An emoji is a symbol, which a skin tone, or the selector of the coloured form,
// may follow. Of the emoji that sequences join, one is not a symbol by its
// category: the left right arrow of a head that shakes.
func isEmoji(r rune) bool {
	return unicode.Is(unicode.So, r) && r != utf8.RuneError || r == '\u2194'
}

func startsWithEmoji(text string) bool {
	r, _ := utf8.DecodeRuneInString(text)
	return isEmoji(r)
}

func endsInEmoji(text string) bool {
	for text != "" {
		r, size := utf8.DecodeLastRuneInString(text)
		if r != '\ufe0f' && (r < 0x1f3fb || r > 0x1f3ff) {
			return isEmoji(r)
		}
		text = text[:len(text)-size]
	}
	return false
}
