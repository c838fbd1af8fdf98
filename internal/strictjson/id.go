package strictjson

import (
	"encoding/json"
	"errors"
	"fmt"
)

// MaxID bounds the id of a request, in bytes of its JSON.
const MaxID = 256

// CheckID checks the id of a request: a number or a string, of at most MaxID bytes. A nil
// id is a missing one.
func CheckID(id json.RawMessage) error {
	switch {
	case id == nil:
		return errors.New("the line has no id")
	case len(id) > MaxID:
		return fmt.Errorf("the id is longer than %d bytes", MaxID)
	case id[0] != '"' && id[0] != '-' && (id[0] < '0' || id[0] > '9'):
		return errors.New("the id is neither a string nor a number")
	}
	return nil
}
