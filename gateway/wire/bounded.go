package wire

import (
	"bytes"
	"encoding/json"
	"fmt"

	"mneme/versionlog"
)

type change struct {
	Action   string                 `json:"action"`
	Path     string                 `json:"path"`
	To       string                 `json:"to,omitempty"`
	Spelling string                 `json:"spelling,omitempty"`
	SHA256   versionlog.Digest      `json:"sha256,omitzero"`
	Size     int64                  `json:"size,omitempty"`
	Rides    bool                   `json:"rides,omitempty"` // its content, of Size bytes, follows the JSON
	MemoryID string                 `json:"memory_id,omitempty"`
	Expect   versionlog.Expectation `json:"expect"`
}

var actions = map[versionlog.Action]string{
	versionlog.Put: "put", versionlog.Remove: "remove", versionlog.Rename: "rename", versionlog.MakeDir: "make_dir",
}

func actionNamed(name string) (versionlog.Action, error) {
	for a, n := range actions {
		if n == name {
			return a, nil
		}
	}
	return 0, fmt.Errorf("no action is called %.40q", name)
}

// changes are those of a proposal. Of one whose content rides, Content is not nil.
type changes []versionlog.Change

// MarshalJSON writes the changes without their contents.
func (cs changes) MarshalJSON() ([]byte, error) {
	all := make([]change, len(cs))
	for i, c := range cs {
		all[i] = change{actions[c.Action], c.Path, c.To, c.Spelling, c.Digest, c.Size, c.Content != nil, c.MemoryID, c.Expect}
	}
	return json.Marshal(all)
}

// UnmarshalJSON reads what MarshalJSON writes, and ends where a commit can have no more changes.
func (cs *changes) UnmarshalJSON(data []byte) error {
	*cs = nil
	return eachOf(data, func(d *json.Decoder) error {
		var c change
		if err := d.Decode(&c); err != nil {
			return err
		}
		action, err := actionNamed(c.Action)
		if err != nil {
			return err
		}
		out := versionlog.Change{Action: action, Path: c.Path, To: c.To, Spelling: c.Spelling, Digest: c.SHA256, Size: c.Size, MemoryID: c.MemoryID, Expect: c.Expect}
		if c.Rides {
			out.Content = []byte{}
		}
		*cs = append(*cs, out)
		return nil
	})
}

// eachOf calls do for each element of an array, of which there may be as many as a commit has changes.
func eachOf(data []byte, do func(*json.Decoder) error) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	begin, err := d.Token()
	if err != nil || begin == nil {
		return err
	}
	if begin != json.Delim('[') {
		return fmt.Errorf("%v is no array", begin)
	}
	for n := 0; d.More(); n++ {
		if n == versionlog.MaxChanges {
			return fmt.Errorf("more than %d changes: %w", versionlog.MaxChanges, versionlog.ErrTooLarge)
		}
		if err := do(d); err != nil {
			return err
		}
	}
	return nil
}

// pairs are those of metadata, or the fields of an event.
type pairs map[string]string

// maxPairs bounds them. No commit has as many.
const maxPairs = 100

// UnmarshalJSON reads an object of at most maxPairs members.
func (p *pairs) UnmarshalJSON(data []byte) error {
	d := json.NewDecoder(bytes.NewReader(data))
	begin, err := d.Token()
	if err != nil || begin == nil {
		return err
	}
	if begin != json.Delim('{') {
		return fmt.Errorf("%v is no object", begin)
	}
	for n := 0; d.More(); n++ {
		if n == maxPairs {
			return fmt.Errorf("more than %d members", maxPairs)
		}
		if _, err := d.Token(); err != nil {
			return err
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return err
		}
	}
	return json.Unmarshal(data, (*map[string]string)(p))
}

// boundRecord returns an error where a record would take more to decode than a commit may have.
func boundRecord(data []byte) error {
	return json.Unmarshal(data, &struct {
		Versions counted `json:"versions"`
		Meta     pairs   `json:"meta"`
		Event    struct {
			Fields pairs `json:"fields"`
		} `json:"event"`
	}{})
}

// counted is an array of which only the length counts.
type counted struct{}

// UnmarshalJSON counts.
func (*counted) UnmarshalJSON(data []byte) error {
	return eachOf(data, func(d *json.Decoder) error {
		var one json.RawMessage
		return d.Decode(&one)
	})
}
