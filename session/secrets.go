package session

import (
	"fmt"

	"mneme/internal/quote"
	"mneme/memory"
	"mneme/secrets"
)

// warnings are the contents of one commit that have brought credentials into a store.
type warnings []memory.SecretsFound

// and returns what adds a warning, and tells the caller of it, too.
func (w *warnings) and(tell func(memory.SecretsFound)) func(memory.SecretsFound) {
	return func(f memory.SecretsFound) {
		*w = append(*w, f)
		if tell != nil {
			tell(f)
		}
	}
}

// note makes the journal tell of credentials that were committed. It does so until the memory has
// none: the next save may well be by a program, before a person has looked.
func (s *Session) note(w warnings) {
	for i := range w {
		line := s.warning(&w[i])
		s.journal.AddKind(secretsKind(w[i].Path), w[i].Path, line)
		if s.opts.Warn != nil {
			s.opts.Warn(quote.Line(quote.Place(line, w[i].Path)))
		}
	}
}

// forgetSecrets takes from the journal that a memory has credentials, if what was saved has
// none.
func (s *Session) forgetSecrets(path string, data []byte) {
	if kind := secretsKind(path); s.journal.Has(kind) && len(secrets.Find(data, 1)) == 0 {
		s.journal.Written(kind)
	}
}

// secretsKind is the kind of errors that tell of the credentials of a memory.
func secretsKind(path string) string { return "secrets in " + path }

// warning says, for those that use the session, that a memory was saved with credentials in
// it, in one line without a word of them.
func (s *Session) warning(f *memory.SecretsFound) string {
	return fmt.Sprintf("%s was saved, but %s; it stays in the history, also when the file is changed: if it is real, replace it where it was issued", s.name(f.Path), f)
}
