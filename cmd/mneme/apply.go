package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"mneme/cas"
	"mneme/memory"
	"mneme/session"
	"mneme/versionlog"
)

type applyCmd struct {
	Store string `arg:"" help:"Its name or id."`
	confirmFlag
}

func (c *applyCmd) Help() string {
	return `Reads one JSON object from standard input and makes all its changes in one commit under one sequence number, or none of them. Prints the sequence number.

    {
      "message": "move the plan",
      "idempotency_key": "5f1c…",
      "changes": [
        {"action": "put", "path": "/a.md", "content": "text", "if_version": "memver_…"},
        {"action": "put", "path": "/b.bin", "content_base64": "AAEC", "if_absent": true},
        {"action": "remove", "path": "/old.md", "if_sha256": "9f86d0…"},
        {"action": "rename", "path": "/plan.md", "to": "/archive/plan.md"}
      ]
    }

message, idempotency_key and the conditions may be left out. A batch with the key of one that is in the history already changes nothing and prints that one's number. A condition speaks of the state before the batch; one that does not hold is a conflict, exit code 4. The target of a rename must be free.

Example:

    mneme apply notes < batch.json`
}

// batchJSON is what apply reads.
type batchJSON struct {
	Message string       `json:"message"`
	Key     string       `json:"idempotency_key"`
	Changes []changeJSON `json:"changes"`
}

type changeJSON struct {
	Action    string  `json:"action"`
	Path      string  `json:"path"`
	To        string  `json:"to"`
	Content   *string `json:"content"`
	Base64    []byte  `json:"content_base64"`
	IfVersion string  `json:"if_version"`
	IfAbsent  bool    `json:"if_absent"`
	IfSHA256  string  `json:"if_sha256"`
}

func (c *applyCmd) Run(ctx context.Context, a *app) error {
	batch, err := readBatch(a.in)
	if err != nil {
		return err
	}
	changes := make([]memory.Change, len(batch.Changes))
	for i, change := range batch.Changes {
		if changes[i], err = change.parse(); err != nil {
			return usagef("change %d: %w", i+1, err)
		}
	}
	return a.withSession(ctx, c.Store, func(_ *memory.Store, s *session.Session) error {
		commit, err := s.Batch(ctx, changes, &session.WriteOptions{Key: batch.Key, Message: batch.Message, Confirmed: c.Confirm})
		if err != nil {
			return err
		}
		if a.json {
			return a.printJSON(newCommitJSON(commit))
		}
		a.printf("%d\n", commit.Seq)
		return nil
	})
}

func readBatch(in io.Reader) (*batchJSON, error) {
	decoder := json.NewDecoder(in)
	decoder.DisallowUnknownFields()
	var batch batchJSON
	err := decoder.Decode(&batch)
	var wrong *json.UnmarshalTypeError
	switch {
	case errors.Is(err, io.EOF):
		return nil, usagef("there is nothing on standard input; want a JSON object with changes, see `mneme apply --help`")
	case errors.As(err, &wrong) && wrong.Field == "":
		return nil, usagef("the batch on standard input is a JSON %s; want an object with changes, see `mneme apply --help`", wrong.Value)
	case errors.As(err, &wrong):
		return nil, usagef("the batch on standard input: %s cannot be of type %s; see `mneme apply --help`", wrong.Field, wrong.Value)
	case err != nil:
		return nil, usagef("the batch on standard input: %w; see `mneme apply --help`", err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, usagef("there is more than one JSON object on standard input")
	}
	if len(batch.Changes) == 0 {
		return nil, usagef("the batch has no changes")
	}
	return &batch, nil
}

// parse checks a change, as far as that takes no store.
func (c *changeJSON) parse() (memory.Change, error) {
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

func (c *changeJSON) expect(out *memory.Change) error {
	conditions := 0
	if c.IfAbsent {
		conditions++
		out.Expect = versionlog.ExpectAbsent()
	}
	if c.IfVersion != "" {
		conditions++
		if _, _, err := versionlog.LocateVersion(c.IfVersion); err != nil {
			return fmt.Errorf("%s: if_version: %w", c.Path, err)
		}
		out.Expect = versionlog.ExpectVersion(c.IfVersion)
	}
	if c.IfSHA256 != "" {
		conditions++
		d, err := cas.ParseDigest(c.IfSHA256)
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
