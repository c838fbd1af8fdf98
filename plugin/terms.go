package plugin

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// maxTerms bounds how many different words of a query are searched for.
const maxTerms = 128

// query is what memories are searched for: the words of a text.
//
// A word is a run of letters, their marks and digits, in NFKC and lower case. Of scripts that do
// not put spaces between words, each character and each pair of neighbours is one. Nothing is
// known of stems, of other spellings or of meanings.
type query struct {
	terms map[string]uint8 // index of each
	words []string
	left  int       // different words that are one too many
	first [256]bool // bytes with which a term begins
}

// newQuery returns the query of a text. Words of one character, and those that most texts of
// English have, are not searched for, unless there are no others.
func newQuery(text string) *query {
	q := &query{terms: map[string]uint8{}}
	var minor []string
	seen := map[string]bool{}
	for _, word := range queryWords(text) {
		switch {
		case seen[word]:
		case stopWords[word] || utf8.RuneCountInString(word) == 1 && !isDense(word):
			minor = append(minor, word)
		default:
			q.add(word)
		}
		seen[word] = true
	}
	if len(q.words) == 0 {
		for _, word := range minor {
			q.add(word)
		}
	}
	return q
}

func (q *query) add(word string) {
	if len(q.words) == maxTerms {
		q.left++
		return
	}
	q.terms[word] = uint8(len(q.words))
	q.words = append(q.words, word)
	q.first[word[0]] = true
}

var stopWords = func() map[string]bool {
	all := map[string]bool{}
	for word := range strings.FieldsSeq("a an and are as at be but by do for from has have how i in is it me my not of on or that the this to was we what when where which who will with you your") {
		all[word] = true
	}
	return all
}()

// queryWords returns the words of a query. Of a run without spaces those are its pairs.
func queryWords(text string) (words []string) {
	eachRun([]byte(text), func(at, end int, plain bool) {
		if plain {
			words = append(words, strings.ToLower(text[at:end]))
			return
		}
		eachFolded(text[at:end], func(run string, dense bool) {
			if pairs := pairsOf(run); dense && len(pairs) > 0 {
				words = append(words, pairs...)
			} else {
				words = append(words, run)
			}
		})
	})
	return words
}

// find calls hit with the place of each word of text that is a term, and returns how many words
// text has.
func (q *query) find(text []byte, hit func(term uint8, at int)) (words int) {
	var small [64]byte
	eachRun(text, func(at, end int, plain bool) {
		if plain {
			words++
			if end-at <= len(small) {
				if !q.first[lower(text[at])] {
					return
				}
				for i, b := range text[at:end] {
					small[i] = lower(b)
				}
				if term, ok := q.terms[string(small[:end-at])]; ok {
					hit(term, at)
				}
				return
			}
		}
		eachFolded(string(text[at:end]), func(run string, dense bool) {
			if !dense {
				if !plain {
					words++
				}
				if term, ok := q.terms[run]; ok {
					hit(term, at)
				}
				return
			}
			for _, part := range append(pairsOf(run), strings.Split(run, "")...) {
				if term, ok := q.terms[part]; ok {
					hit(term, at)
				}
			}
			words += utf8.RuneCountInString(run)
		})
	})
	return words
}

func lower(b byte) byte {
	if 'A' <= b && b <= 'Z' {
		return b + 'a' - 'A'
	}
	return b
}

// eachRun calls run with the bounds of each run of letters, marks and digits. plain says that
// it is of ASCII.
func eachRun(text []byte, run func(at, end int, plain bool)) {
	for at := 0; at < len(text); {
		end, plain := at, true
		for end < len(text) {
			b := text[end]
			if b < utf8.RuneSelf {
				if !isPlain[b] {
					break
				}
				end++
				continue
			}
			r, size := utf8.DecodeRune(text[end:])
			if !isLetter(r) {
				break
			}
			plain, end = false, end+size
		}
		if end > at {
			run(at, end, plain)
			at = end
			continue
		}
		if text[at] < utf8.RuneSelf {
			at++
			continue
		}
		_, size := utf8.DecodeRune(text[at:])
		at += size
	}
}

// isPlain says which bytes of ASCII are letters or digits.
var isPlain = func() (is [utf8.RuneSelf]bool) {
	for b := range is {
		is[b] = 'a' <= b && b <= 'z' || 'A' <= b && b <= 'Z' || '0' <= b && b <= '9'
	}
	return is
}()

func isLetter(r rune) bool { return unicode.IsLetter(r) || unicode.IsMark(r) || unicode.IsDigit(r) }

// eachFolded calls yield with the parts of a run in NFKC and lower case: those of scripts
// without spaces between words, which are dense, and what is between them.
func eachFolded(run string, yield func(part string, dense bool)) {
	folded := norm.NFKC.String(strings.ToLower(norm.NFKC.String(run)))
	start, dense := 0, false
	flush := func(end int) {
		if end > start {
			yield(folded[start:end], dense)
		}
	}
	for i, r := range folded {
		switch {
		case !isLetter(r):
			flush(i)
			start = i + utf8.RuneLen(r)
		case isDenseRune(r) != dense && !unicode.IsMark(r):
			flush(i)
			start, dense = i, !dense
		}
	}
	flush(len(folded))
}

// pairsOf returns each two characters of a text that are neighbours.
func pairsOf(run string) (pairs []string) {
	before := -1
	for i, r := range run {
		if before >= 0 {
			pairs = append(pairs, run[before:i+utf8.RuneLen(r)])
		}
		before = i
	}
	return pairs
}

func isDense(word string) bool {
	r, _ := utf8.DecodeRuneInString(word)
	return isDenseRune(r)
}

// isDenseRune reports whether r is of a script that puts no spaces between words.
func isDenseRune(r rune) bool {
	return r >= 0x0e00 && (unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar) || r == 'ー')
}
