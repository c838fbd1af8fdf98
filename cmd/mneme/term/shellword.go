package term

import "strings"

// ShellWord quotes text for a shell, if it needs that.
func ShellWord(text string) string {
	plain := strings.IndexFunc(text, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("-_./:=%@+,", r)
	}) < 0
	if plain && text != "" {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}
