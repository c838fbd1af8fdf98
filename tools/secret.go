package tools

import (
	"fmt"
	"log/slog"
)

// Secret is a text that a memory holds, is to hold, or is searched for. Whatever prints it
// prints its length; Reveal alone returns it.
type Secret struct{ text string }

// NewSecret returns text as a Secret.
func NewSecret(text string) Secret { return Secret{text} }

// Reveal returns the text. It must go into results and memories only.
func (s Secret) Reveal() string { return s.text }

// String returns the length of the text.
func (s Secret) String() string { return fmt.Sprintf("[%d bytes]", len(s.text)) }

// GoString is String.
func (s Secret) GoString() string { return s.String() }

// Format prints String, whatever the verb.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(s.String())) }

// LogValue is String for a logger.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// MarshalText is String for encoders.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }
