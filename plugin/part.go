package plugin

import (
	"strings"
	"unicode/utf8"
)

// place is where a word of a query is in a text, in bytes.
type place struct {
	term uint8
	at   int
}

// maxPlaces bounds how many places of one memory are looked at.
const maxPlaces = 256

// bestPart returns the part of a text, of at most room characters, that has most of the words
// of a query, and whether that is not all of it. It begins and ends with a line where that is
// possible. Blank lines at the ends of the text are left out.
func bestPart(text string, places []place, room int) (part string, isPart bool) {
	from := len(text) - len(strings.TrimLeft(text, "\n"))
	whole := strings.TrimRight(text, "\n")
	if from >= len(whole) {
		return "", false
	}
	if utf8.RuneCountInString(whole[from:]) <= room {
		return whole[from:], false
	}
	first, last := bestPlaces(places, room)
	at := max(from, min(first, len(whole)))
	if line := strings.LastIndexByte(whole[:at], '\n') + 1; at-line <= room/2 {
		at = max(from, line)
	} else {
		at = backRunes(whole, at, room/4)
	}
	part = cutRunes(whole[at:], room)
	if at+len(part) == len(whole) { // there is room before it
		at = max(from, backRunes(whole, at, room-utf8.RuneCountInString(part)))
		if line := strings.IndexByte(whole[at:], '\n'); at > from && line >= 0 && at+line < first {
			at += line + 1
		}
		return whole[at:], true
	}
	if line := strings.LastIndexByte(part, '\n'); line > 0 && at+line > last {
		part = part[:line]
	}
	return part, true
}

// bestPlaces returns the first and last place of the window of room bytes that has most
// different words; of two, the one with more words in all, or else the first.
func bestPlaces(places []place, room int) (first, last int) {
	counts := [maxTerms]int{}
	start, different, mostDifferent, most := 0, 0, 0, 0
	for end, p := range places {
		if counts[p.term]++; counts[p.term] == 1 {
			different++
		}
		for p.at-places[start].at >= room {
			gone := places[start].term
			if counts[gone]--; counts[gone] == 0 {
				different--
			}
			start++
		}
		if n := end - start + 1; different > mostDifferent || different == mostDifferent && n > most {
			mostDifferent, most = different, n
			first, last = places[start].at, p.at
		}
	}
	return first, last
}

// backRunes returns the place in text that is so many characters before at, or its beginning.
func backRunes(text string, at, number int) int {
	for ; at > 0 && number > 0; number-- {
		_, size := utf8.DecodeLastRuneInString(text[:at])
		at -= size
	}
	return at
}

// cutRunes returns the first characters of a text.
func cutRunes(text string, number int) string {
	for i := range text {
		if number == 0 {
			return text[:i]
		}
		number--
	}
	return text
}
