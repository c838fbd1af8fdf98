package plugin

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"unicode/utf8"

	"mneme/internal/quote"
)

// The bounds of a meta.
const (
	MaxMeta      = 16  // pairs
	MaxMetaChars = 512 // characters of a key, or of a value as JSON
)

var errNotJSON = errors.New("it has a value that JSON cannot say")

// metaJSON returns a meta as JSON, whose objects have their fields in byte order, so that the
// same meta is the same bytes; nil of none.
func metaJSON(meta map[string]any) ([]byte, error) {
	if len(meta) == 0 {
		return nil, nil
	}
	if len(meta) > MaxMeta {
		return nil, fmt.Errorf("field meta: it has %d pairs, at most %d", len(meta), MaxMeta)
	}
	for _, key := range slices.Sorted(maps.Keys(meta)) {
		value, err := scalar(meta[key])
		switch {
		case err != nil:
			return nil, fmt.Errorf("field meta: %w", errNotJSON)
		case !utf8.ValidString(key):
			return nil, errors.New("field meta: it is not Unicode")
		case utf8.RuneCountInString(key) > MaxMetaChars, utf8.RuneCount(value) > MaxMetaChars:
			return nil, fmt.Errorf("field meta: a key or value has more than %d characters", MaxMetaChars)
		}
	}
	return scalar(meta)
}

// scalar returns a value as JSON in one line, which is YAML, too: what YAML does not take as it
// is in a string is escaped.
func scalar(value any) ([]byte, error) {
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	if err := e.Encode(value); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(quote.JSON(text.Bytes()), []byte("\n")), nil
}
