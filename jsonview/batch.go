package jsonview

import (
	"encoding/json"
	"errors"
	"fmt"

	"mneme/cas"
	"mneme/memory"
	"mneme/versionlog"
)

// Batch is several changes of a store that are made at once, all or none.
type Batch struct {
	Message string   `json:"message"`
	Key     string   `json:"idempotency_key"`
	Changes []Change `json:"changes"`
}

// Change is one of them. A condition speaks of the state before the batch.
type Change struct {
	Action    string  `json:"action"`
	Path      string  `json:"path"`
	To        string  `json:"to"`
	Content   *string `json:"content"`
	Base64    []byte  `json:"content_base64"`
	IfVersion given   `json:"if_version"`
	IfAbsent  bool    `json:"if_absent"`
	IfSHA256  given   `json:"if_sha256"`
}

// given is a text of which it counts that it is there, also where it is empty or null.
type given struct {
	is   bool
	text string
}

// UnmarshalJSON implements json.Unmarshaler.
func (g *given) UnmarshalJSON(data []byte) error {
	g.is = true
	return json.Unmarshal(data, &g.text)
}

// Parse checks the changes, as far as that takes no store.
func (b *Batch) Parse() ([]memory.Change, error) {
	changes := make([]memory.Change, len(b.Changes))
	for i, change := range b.Changes {
		var err error
		if changes[i], err = change.parse(); err != nil {
			return nil, fmt.Errorf("change %d: %w", i+1, err)
		}
	}
	return changes, nil
}

// parse checks a change, as far as that takes no store.
func (c *Change) parse() (memory.Change, error) {
	out := memory.Change{Path: c.Path, To: c.To}
	if c.Path == "" {
		return out, errors.New("there is no path")
	}
	switch c.Action {
	case "put":
		out.Action, out.Expect = versionlog.Put, versionlog.ExpectAny()
		if (c.Content == nil) == (c.Base64 == nil) {
			return out, fmt.Errorf("%s: want one of content and content_base64", c.Path)
		}
		if out.Content = c.Base64; c.Content != nil {
			out.Content = []byte(*c.Content)
		}
	case "remove", "rename":
		out.Action, out.Expect = versionlog.Remove, versionlog.ExpectExists()
		if c.Action == "rename" {
			out.Action = versionlog.Rename
		}
		if c.Content != nil || c.Base64 != nil || c.IfAbsent {
			return out, fmt.Errorf("%s: content and if_absent are for put", c.Path)
		}
	default:
		return out, fmt.Errorf("action %q: want put, remove or rename", c.Action)
	}
	if (c.Action == "rename") != (c.To != "") {
		return out, fmt.Errorf("%s: a rename has a field to, and nothing else has", c.Path)
	}
	return out, c.expect(&out)
}

func (c *Change) expect(out *memory.Change) error {
	conditions := 0
	if c.IfAbsent {
		conditions++
		out.Expect = versionlog.ExpectAbsent()
	}
	if c.IfVersion.is {
		conditions++
		if _, _, err := versionlog.LocateVersion(c.IfVersion.text); err != nil {
			return fmt.Errorf("%s: if_version: %w", c.Path, err)
		}
		out.Expect = versionlog.ExpectVersion(c.IfVersion.text)
	}
	if c.IfSHA256.is {
		conditions++
		d, err := cas.ParseDigest(c.IfSHA256.text)
		if err != nil {
			return fmt.Errorf("%s: if_sha256: %w", c.Path, err)
		}
		out.Expect = versionlog.ExpectDigest(d)
	}
	if conditions > 1 {
		return fmt.Errorf("%s: one condition at most", c.Path)
	}
	return nil
}
