package archtest

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// pattern is a turn of phrase at which a reader stumbles, and its replacement.
type pattern struct {
	name, instead string
	in            *regexp.Regexp
}

// patterns are counted in comments and docs.
var patterns = []pattern{
	{"sentences that begin with What", "begin with the thing: subject, verb, object", regexp.MustCompile(`(?:^|[.!?:;]\s+|\*\*\s?)What\b`)},
	{"of, to, for or than what", "name the thing", regexp.MustCompile(`(?i)\b(?:of|to|for|than) what\b`)},
	{"somebody, nobody, anybody", "another process, no process, the caller", regexp.MustCompile(`(?i)\b(?:some|no|any)body\b`)},
	{"bare who and whoever", "the caller, the session, a process that", regexp.MustCompile(`(?i)(?:\bwhoever\b|(?:^|[.!?:;,(]\s*|\b(?:of|to|for|by|from|with|and|or|but|that|than|is|was|says?|knows?|tells?|asks?|as) )who\b)`)},
	{"anew, by then, by now, is to be", "again, at that time, already, must be", regexp.MustCompile(`(?i)\b(?:anew|by then|by now|(?:is|are) to be)\b`)},
}

// per is the number of words to which the counts are scaled.
const per = 100_000

// words counts the patterns in the comments of the product and in the docs.
func words(files []*file, docs []string) ([]measure, error) {
	total := 0
	found := make([]map[string]int, len(patterns))
	for i := range found {
		found[i] = map[string]int{}
	}
	count := func(place, text string) {
		text = strings.Join(strings.Fields(text), " ")
		total += strings.Count(text, " ") + 1
		for i, p := range patterns {
			if n := len(p.in.FindAllString(text, -1)); n > 0 {
				found[i][place] += n
			}
		}
	}
	for _, f := range products(files) {
		for _, group := range f.syntax.Comments {
			count(f.pkg(), group.Text())
		}
	}
	for _, name := range docs {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		for paragraph := range strings.SplitSeq(string(text), "\n") {
			count(filepath.Base(name), strings.TrimLeft(paragraph, " -#>|*0123456789."))
		}
	}
	var all []measure
	for i, p := range patterns {
		m := largest(fmt.Sprintf("%s in %d words", p.name, per), found[i])
		n := 0
		for _, of := range found[i] {
			n += of
		}
		m.value, m.note = n*per/max(total, 1), "write "+p.instead
		all = append(all, m)
	}
	return all, nil
}
