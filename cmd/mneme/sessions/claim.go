package sessions

import (
	"errors"
	"fmt"
	"log/slog"
	"os"

	"mneme/backend"
	"mneme/cmd/mneme/app"
	"mneme/daemon"
)

// NewLogger returns the logger of a daemon, which adds advice to errors.
func NewLogger(level slog.Level) *slog.Logger { return daemon.NewLogger(level, app.WithAdvice) }

// ClaimWanted claims a session that can write to one of the stores. A nil file is no claim.
func ClaimWanted(url *string, session string, wanted []WantedStore) (*os.File, error) {
	if AllReadOnly(wanted) {
		return nil, nil
	}
	at, err := app.Locate(url)
	if err != nil {
		return nil, err
	}
	if at.Check() != nil {
		return nil, nil // it cannot be opened either, and gets no directory
	}
	dir, err := at.ConflictsDir()
	if err != nil {
		return nil, err
	}
	claim, err := daemon.Claim(dir, session)
	if unusable := (*daemon.ClaimDirError)(nil); errors.As(err, &unusable) {
		err = fmt.Errorf("%w; $%s names another directory", err, backend.ConflictsVariable)
	}
	return claim, err
}
