package plugin

import "math"

// hits are how often a word of the query is in a text, and whether it is in the path.
type hits struct {
	term   uint8
	number int
	inPath bool
}

// weights are what the texts that were looked through say of the words of a query.
type weights struct {
	texts, words int
	has          []int // in how many texts each word is
}

// add adds those of another store.
func (w *weights) add(more weights) {
	w.texts += more.texts
	w.words += more.words
	for i, n := range more.has {
		w.has[i] += n
	}
}

// score returns how well a memory of so many words fits, with three digits: BM25, and half the
// weight of each word that is in the path.
func (w *weights) score(found []hits, words int) float64 {
	const k1, b = 1.2, 0.75
	mean := float64(max(1, w.words)) / float64(max(1, w.texts))
	sum := 0.0
	for _, h := range found {
		n := float64(w.has[h.term])
		weight := math.Log(1 + (float64(w.texts)-n+0.5)/(n+0.5))
		often := float64(h.number)
		sum += weight * often * (k1 + 1) / (often + k1*(1-b+b*float64(words)/mean))
		if h.inPath {
			sum += weight / 2
		}
	}
	return math.Round(sum*1000) / 1000
}
