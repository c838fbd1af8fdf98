package tools

import "encoding/base64"

// Answer is a Result in JSON, as lines and HTTP have it.
type Answer struct {
	Content  any    `json:"content"` // a string or, of a picture, blocks as the Messages API takes them
	IsError  bool   `json:"is_error"`
	Kind     string `json:"kind,omitempty"` // this and what follows are of an error
	Retry    string `json:"retry,omitempty"`
	Conflict int    `json:"conflict,omitempty"`
	Unsure   bool   `json:"unsure,omitempty"`
}

// Answer returns r in JSON.
func (r *Result) Answer() *Answer {
	a := &Answer{Content: r.content(), IsError: r.Error != nil}
	if a.IsError {
		a.Kind, a.Retry = r.Error.Kind.String(), r.Error.Retry.String()
		a.Conflict, a.Unsure = r.Error.Conflict, r.Error.Unsure
	}
	return a
}

func (r *Result) content() any {
	if r.Image == nil {
		return r.Text
	}
	return []any{
		map[string]string{"type": "text", "text": r.Text},
		map[string]any{"type": "image", "source": map[string]string{
			"type": "base64", "media_type": r.Image.MediaType, "data": base64.StdEncoding.EncodeToString(r.Image.Data),
		}},
	}
}
