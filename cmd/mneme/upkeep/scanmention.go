package upkeep

import (
	"fmt"
	"math"
	"strings"

	"mneme/cmd/mneme/app"
	"mneme/history"
	"mneme/internal/plural"
	"mneme/internal/quote"
	"mneme/memory"
	"mneme/secrets"
)

// printMention prints the place of credentials outside contents, and what can be done.
func printMention(a *app.App, slug string, m *history.Mention) error {
	what := m.What
	switch what {
	case memory.MentionPath, memory.MentionMessage:
	default:
		what = "store's " + withoutSecrets(what)
	}
	for _, f := range m.Found {
		a.Printf("%s: commit %d, in the %s: %s (%s)\n", slug, m.Commits[0], quote.Text(what), f.Rule, f.Masked)
	}
	a.Printf("    %s\n", plural.Of(len(m.Commits), "commit"))
	if len(m.Versions) > 0 {
		a.Printf("    Rename a memory that is called so, and write it anew. To erase it: mneme redact %s %s --reason WHY\n", slug, strings.Join(m.Versions, " "))
	} else {
		a.Printf("    Redaction does not reach it: have the credential replaced where it was issued. A store without it is a new one, filled with what `mneme export %s --dir DIR` writes.\n", slug)
	}
	return a.OutError()
}

// maskedPath is a path without its credentials.
func maskedPath(path string) string { return quote.Text(withoutSecrets(path)) }

// withoutSecrets returns a text with its credentials masked.
func withoutSecrets(text string) string {
	var b strings.Builder
	at := 0
	for _, f := range secrets.Find([]byte(text), math.MaxInt) {
		fmt.Fprintf(&b, "%s%s", text[at:f.Offset], f.Masked)
		at = f.Offset + f.Length
	}
	return b.String() + text[at:]
}

// mentionJSON is a text with credentials, for programs.
type mentionJSON struct {
	Type     string            `json:"type"`
	What     string            `json:"what"`
	Found    []secrets.Finding `json:"found"`
	Commits  []uint64          `json:"commits"`
	Versions []string          `json:"versions,omitempty"`
}

func newMentionJSON(m *history.Mention) mentionJSON {
	return mentionJSON{"mention", withoutSecrets(m.What), m.Found, m.Commits, m.Versions}
}
