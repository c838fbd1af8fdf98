package quote

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxMarks is how many marks may stand above and below one letter: Hebrew with
// vowels and accents has four, Tibetan a few more. Others run into the lines around.
const maxMarks = 6

// Shown reports whether a reader recognises the character at s[at:], in its place. Those
// that are not shown are control, format and private characters, blanks other than the
// space, fillers, characters that Unicode has not assigned; joiners that join nothing;
// variation selectors except those that choose the form of an emoji; and marks on nothing,
// or on too many others.
func Shown(s string, at int) bool {
	r, _ := utf8.DecodeRuneInString(s[at:])
	switch {
	case ' ' <= r && r < 0x7f:
		return true
	case r == zwj || r == zwnj:
		return Joins(s, at)
	case r == textForm || r == emojiForm:
		return Selects(s, at)
	case !strconv.IsPrint(r) || IsBlank(r):
		return false
	case stacks(r):
		return sitsOnLetter(s[:at])
	}
	return true
}

// IsBlank reports whether r, though it is a letter, a mark or a symbol, shows as
// nothing, or as a space.
func IsBlank(r rune) bool {
	return unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector, blanks)
}

// blanks are those that Unicode does not have among the characters to ignore: an
// empty Braille cell, a note head, fillers of scripts that are drawn in squares.
var blanks = &unicode.RangeTable{
	R16: []unicode.Range16{{Lo: 0x2800, Hi: 0x2800, Stride: 1}},
	R32: []unicode.Range32{
		{Lo: 0x13441, Hi: 0x13442, Stride: 1}, {Lo: 0x16fe4, Hi: 0x16fe4, Stride: 1}, {Lo: 0x1d159, Hi: 0x1d159, Stride: 1},
	},
}

// The selectors of a symbol's two forms.
const (
	textForm  = '\ufe0e'
	emojiForm = '\ufe0f'
)

// Selects reports whether the variation selector at s[at:] has an effect: the
// form of an emoji, the shape of a Chinese character or of a symbol, or that of
// a letter of the scripts which have such shapes.
func Selects(s string, at int) bool {
	r, _ := utf8.DecodeRuneInString(s[at:])
	base, _ := utf8.DecodeLastRuneInString(s[:at])
	switch {
	case base == utf8.RuneError || IsBlank(base):
		return false
	case r == textForm || r == emojiForm:
		return unicode.IsSymbol(base) || strings.ContainsRune("0123456789#*‼⁉ℹ〰", base)
	case 0xfe00 <= r && r < textForm:
		return unicode.IsSymbol(base) || unicode.In(base, unicode.Han, unicode.Myanmar, unicode.Phags_Pa, unicode.Manichaean)
	case 0xe0100 <= r && r <= 0xe01ef:
		return unicode.Is(unicode.Han, base)
	}
	return unicode.Is(unicode.Variation_Selector, r) && unicode.Is(unicode.Mongolian, base)
}

// stacks reports whether r is a mark that has no place of its own in the line.
func stacks(r rune) bool { return unicode.In(r, unicode.Mn, unicode.Me) }

// sitsOnLetter reports whether a mark behind before has something to sit on, and
// room there.
func sitsOnLetter(before string) bool {
	for range maxMarks {
		r, size := utf8.DecodeLastRuneInString(before)
		if !stacks(r) {
			return size > 0 && !strings.ContainsRune(" /\"\\:", r)
		}
		before = before[:len(before)-size]
	}
	return false
}
