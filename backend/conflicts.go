package backend

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"mneme/internal/safepath"
	"mneme/internal/xdg"
)

// ConflictsVariable names the environment variable with a directory that keeps conflicts
// instead of the usual one.
const ConflictsVariable = "MNEME_CONFLICTS"

// conflictsName is the directory of conflicts, beside the stores they are of.
const conflictsName = "conflicts"

// ConflictsDir returns where this machine keeps the conflicts of the location's stores,
// each in a directory below it named by the store's id. The directory may be missing.
// Those of stores on this machine's disk lie beside them; others belong to the user who
// writes.
func (l *Location) ConflictsDir() (string, error) {
	if dir := os.Getenv(ConflictsVariable); dir != "" {
		if !filepath.IsAbs(dir) {
			return "", invalidf("$%s is %q; want an absolute path", ConflictsVariable, dir)
		}
		return dir, nil
	}
	if l.Dir != "" {
		return filepath.Join(l.Dir, conflictsName), nil
	}
	state, err := xdg.State()
	return filepath.Join(state, conflictsName), err
}

// elsewhere adds to an error about what others may change which other place would do.
func elsewhere(err error, place string) error {
	if errors.Is(err, safepath.ErrUntrusted) {
		err = fmt.Errorf("%w; %s", err, place)
	}
	return err
}

// checkConflictsDir makes sure that root can use the directory of conflicts.
func checkConflictsDir(dir string) error {
	if err := safepath.Check(dir); err != nil {
		return fmt.Errorf("conflicts: %w", elsewhere(err, "$"+ConflictsVariable+" names another directory"))
	}
	return nil
}
