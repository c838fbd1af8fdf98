package plugin

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestWords: a text has the words that its parts have in every script, and each text has its
// own.
func TestWords(t *testing.T) {
	for text, want := range map[string]string{
		"Hello, WORLD-wide web2!":          "hello world wide web2",
		"ÉCOLE ecole\u0301 ﬁn":             "école ecolé fin",
		"東京タワー GPT会議 猫":                    "東京 京タ タワ ワー gpt 会議 猫",
		"ภาษาไทย":                          "ภา าษ ษา าไ ไท ทย",
		"हिन्दी में":                       "हिन्दी में",
		"ＦＵＬＬ ﷺ x":                         "full صلى الله عليه وسلم",
		"the and of":                       "the and of", // there are no others
		"the plan":                         "plan",
		strings.Repeat("long", 100) + " é": strings.Repeat("long", 100),
	} {
		if got := strings.Join(newQuery(text).words, " "); got != want {
			t.Errorf("%q has %q, want %q", text, got, want)
		}
	}
	part := rapid.SampledFrom([]string{"a", "B", "é", "E\u0301", "İ", "ß", "ﬁ", "Ａ", "日", "本", "ー", "か\u3099", "ท", "ี", "1", "٣", " ", "-", "\u200d", "ﷺ", "Ω", "Ω", strings.Repeat("x", 70)})
	rapid.Check(t, func(rt *rapid.T) {
		text := strings.Join(rapid.SliceOfN(part, 0, 30).Draw(rt, "parts"), "")
		q := newQuery(text)
		var found []string
		words := q.find([]byte(text), func(term uint8, at int) {
			if at >= len(text) {
				rt.Fatalf("a word is at %d of %q", at, text)
			}
			found = append(found, q.words[term])
		})
		for _, word := range q.words {
			if !slices.Contains(found, word) {
				rt.Fatalf("%q has %q, of which %q is not found", text, q.words, word)
			}
		}
		if words < len(found)/2 { // a character is one of its own, and one of a pair
			rt.Fatalf("%q has %d words, of which %d are found", text, words, len(found))
		}
	})
}
