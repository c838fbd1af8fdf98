package plugin

import (
	"fmt"
	"strings"
	"testing"
)

// BenchmarkFind measures how fast the words of a query are found in English and in Japanese.
func BenchmarkFind(b *testing.B) {
	for name, text := range map[string]string{
		"English":  strings.Repeat("- note 17 of many: the quick brown fox jumps over the lazy dog\n", 84),
		"accents":  strings.Repeat("- élève 17 à l'école: un café très fermé, le garçon naïf déjà là\n", 84),
		"Japanese": strings.Repeat("来週の会議は月曜日です。議事録は明日までに送ります。\n", 84),
	} {
		b.Run(name, func(b *testing.B) {
			q := newQuery("When does the lazy FOX meet 会議?")
			b.SetBytes(int64(len(text)))
			words, hits := 0, 0
			for b.Loop() {
				words = q.find([]byte(text), func(uint8, int) { hits++ })
			}
			b.ReportMetric(float64(words), "words")
			if hits == 0 && name != "accents" {
				b.Error(fmt.Sprint("nothing is found in ", name))
			}
		})
	}
}
