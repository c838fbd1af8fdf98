package plugin

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"

	"mneme/internal/strictjson"
)

// decodeRequest reads a request whose bytes were checked. Nothing that is unknown or of another
// type is passed over: an *strictjson.Error, or one that names the field likewise.
func decodeRequest(o *strictjson.Object) (r Request, err error) {
	if r, err = decodeFields(o); err == nil {
		err = o.Done()
	}
	return r, err
}

// decodeBatch is decodeRequest for a batch.
func decodeBatch(o *strictjson.Object) (b Batch, err error) {
	if b.Request, err = decodeFields(o); err != nil {
		return b, err
	}
	entries, given, err := o.OptObjects("entries")
	switch {
	case err != nil:
		return b, err
	case !given:
		return b, &strictjson.Error{Problem: strictjson.Missing, Field: "entries"}
	}
	for i, one := range entries {
		e, err := decodeEntry(one)
		if err != nil {
			return b, fmt.Errorf("entry %d: %w", i+1, err)
		}
		b.Entries = append(b.Entries, e)
	}
	return b, o.Done()
}

func decodeFields(o *strictjson.Object) (r Request, err error) {
	for _, f := range r.texts() {
		text, _, err := o.OptString(f.name)
		if err != nil {
			return r, err
		}
		*f.text = text
	}
	if r.Limits, err = decodeLimits(o); err != nil {
		return r, err
	}
	r.Meta, err = decodeMeta(o)
	return r, err
}

func decodeLimits(o *strictjson.Object) (l Limits, err error) {
	inner, given, err := o.OptObject("limits")
	if err != nil || !given {
		return l, err
	}
	for _, f := range []struct {
		name string
		to   *int
	}{{"max_items", &l.MaxItems}, {"max_chars", &l.MaxChars}} {
		n, given, err := inner.OptInt(f.name)
		switch {
		case err != nil:
			return l, err
		case given && n < 1: // 0 is no default here: it was given
			*f.to = -1
		case given:
			*f.to = int(min(n, math.MaxInt32))
		}
	}
	return l, inner.Done()
}

func decodeEntry(o *strictjson.Object) (e Entry, err error) {
	if e.Text, err = o.String("text"); err != nil {
		return e, err
	}
	if e.ID, _, err = o.OptString("id"); err != nil {
		return e, err
	}
	if e.Role, _, err = o.OptString("role"); err != nil {
		return e, err
	}
	if e.Meta, err = decodeMeta(o); err != nil {
		return e, err
	}
	return e, o.Done()
}

// decodeMeta reads a meta, which stays as it is except for the order of its members.
func decodeMeta(o *strictjson.Object) (map[string]any, error) {
	inner, given, err := o.OptObject("meta")
	if err != nil || !given {
		return nil, err
	}
	meta := map[string]any{}
	for _, name := range inner.Names() {
		d := json.NewDecoder(bytes.NewReader(inner.Raw(name)))
		d.UseNumber() // 1.0 and large numbers stay what they are
		var value any
		if err := d.Decode(&value); err != nil {
			return nil, fmt.Errorf("field meta: %w", errNotJSON)
		}
		meta[name] = value
	}
	_, err = metaJSON(meta)
	return meta, err
}
