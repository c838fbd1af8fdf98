package plugin

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// maxTerms bounds how many different words of a query are searched for.
const maxTerms = 128

// query is the words of a text, for which memories are searched.
//
// A word is a run of letters, their marks and digits, in NFKC and lower case. In scripts
// without spaces between words, each character and each pair of neighbours is a word.
// Nothing is known of stems, of other spellings or of meanings.
type query struct {
	terms map[string]uint8 // index of each
	words []string
	left  int       // different words that are one too many
	dense bool      // words may be characters of scripts without spaces
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
	q.dense = q.dense || isDense(word)
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
		eachFolded(nil, []byte(text[at:end]), func(part []byte, dense bool) {
			if !dense || utf8.RuneCount(part) == 1 {
				words = append(words, string(part))
				return
			}
			eachPair(part, func(_, pair []byte) {
				if pair != nil {
					words = append(words, string(pair))
				}
			})
		})
	})
	return words
}

// find calls hit with the place of each word of text that is a term, and returns how many words
// text has.
func (q *query) find(text []byte, hit func(term uint8, at int)) (words int) {
	var small [256]byte
	eachRun(text, func(at, end int, plain bool) {
		look := func(word []byte) {
			if term, ok := q.terms[string(word)]; ok {
				hit(term, at)
			}
		}
		if plain && end-at <= len(small) {
			words++
			if q.first[lower(text[at])] {
				for i, b := range text[at:end] {
					small[i] = lower(b)
				}
				look(small[:end-at])
			}
			return
		}
		eachFolded(small[:0], text[at:end], func(part []byte, dense bool) {
			if !dense {
				words++
				look(part)
				return
			}
			words += utf8.RuneCount(part)
			if !q.dense {
				return
			}
			eachPair(part, func(one, pair []byte) {
				look(one)
				if pair != nil {
					look(pair)
				}
			})
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
// without spaces between words, which are dense, and what is between them. It may use scratch
// for them.
func eachFolded(scratch, run []byte, yield func(part []byte, dense bool)) {
	folded := fold(scratch, run)
	start, dense := 0, false
	flush := func(end int) {
		if end > start {
			yield(folded[start:end], dense)
		}
	}
	for at := 0; at < len(folded); {
		r, size := utf8.DecodeRune(folded[at:])
		switch {
		case !isLetter(r):
			flush(at)
			start = at + size
		case isDenseRune(r) != dense && !unicode.IsMark(r):
			flush(at)
			start, dense = at, !dense
		}
		at += size
	}
	flush(len(folded))
}

// fold appends a run to scratch, in NFKC and lower case.
func fold(scratch, run []byte) []byte {
	if !norm.NFKC.IsNormal(run) {
		run = norm.NFKC.Bytes(run)
	}
	folded, changed := scratch, false
	for at := 0; at < len(run); {
		r, size := utf8.DecodeRune(run[at:])
		small := unicode.ToLower(r)
		changed = changed || small != r
		folded = utf8.AppendRune(folded, small)
		at += size
	}
	if changed && !norm.NFKC.IsNormal(folded) {
		return norm.NFKC.Bytes(folded)
	}
	return folded
}

// eachPair calls yield with each character of a text, and with that and the one before; nil is
// that there is none before it.
func eachPair(text []byte, yield func(one, pair []byte)) {
	before := -1
	for at := 0; at < len(text); {
		_, size := utf8.DecodeRune(text[at:])
		var pair []byte
		if before >= 0 {
			pair = text[before : at+size]
		}
		yield(text[at:at+size], pair)
		before, at = at, at+size
	}
}

func isDense(word string) bool {
	r, _ := utf8.DecodeRuneInString(word)
	return isDenseRune(r)
}

// isDenseRune reports whether r is of a script that puts no spaces between words.
func isDenseRune(r rune) bool {
	switch {
	case r < 0x0e00:
		return false
	case 0x3041 <= r && r <= 0x30ff, 0x4e00 <= r && r <= 0x9fff: // most of the dense scripts
		return true
	}
	return unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar)
}
