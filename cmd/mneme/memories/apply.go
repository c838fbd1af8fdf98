package memories

import (
	"bytes"
	"context"
	"fmt"
	"io"

	"mneme/cmd/mneme/app"
	"mneme/internal/strictjson"
	"mneme/jsonview"
	"mneme/memory"
	"mneme/session"
)

// ApplyCmd is the command `mneme apply`.
type ApplyCmd struct {
	Store string `arg:"" help:"Its name or id."`
	app.ConfirmFlag
}

func (c *ApplyCmd) Help() string {
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

func (c *ApplyCmd) Run(ctx context.Context, a *app.App) error {
	batch, err := readBatch(a.In)
	if err != nil {
		return err
	}
	return a.WithSession(ctx, c.Store, func(_ *memory.Store, s *session.Session) error {
		commit, err := s.Batch(ctx, batch.Changes, &session.WriteOptions{Key: batch.Key, Message: batch.Message, Confirmed: c.Confirm})
		if err != nil {
			return jsonview.NumberedError(err)
		}
		if a.JSON {
			return a.PrintJSON(jsonview.NewCommit(commit))
		}
		a.Printf("%d\n", commit.Seq)
		return nil
	})
}

func readBatch(in io.Reader) (*jsonview.Batch, error) {
	data, err := io.ReadAll(in)
	if err != nil {
		return nil, fmt.Errorf("read standard input: %w", err)
	}
	if len(bytes.TrimSpace(data)) == 0 {
		return nil, app.Usagef("there is nothing on standard input; want a JSON object with changes, see `mneme apply --help`")
	}
	batch, err := jsonview.ReadBatch(data, strictjson.Limits{Bytes: len(data), Values: len(data)})
	if err != nil {
		return nil, app.Usagef("the batch on standard input: %w; see `mneme apply --help`", err)
	}
	return batch, nil
}
