package upkeep

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"mneme/cas"
	"mneme/cmd/mneme/app"
	"mneme/internal/quote"
	"mneme/versionlog"
	"mneme/witness"
)

// parseTip reads a tip, in the form of `mneme store show`: SEQ:DIGEST, or DIGEST alone.
func parseTip(text string) (tip versionlog.Tip, err error) {
	number, digest, both := strings.Cut(text, ":")
	if !both {
		number, digest = "", number
	}
	if tip.Digest, err = cas.ParseDigest(digest); err != nil {
		return tip, app.Usagef("--against: %w; want DIGEST or SEQ:DIGEST, as the tip in `mneme store show`, or the file of a signed note and --verify-key", err)
	}
	if !both {
		return tip, nil
	}
	if tip.Seq, err = strconv.ParseUint(number, 10, 64); err != nil || tip.Seq == 0 {
		return tip, app.Usagef("--against: %q is no sequence number; want SEQ:DIGEST, as the tip in `mneme store show`", number)
	}
	return tip, nil
}

// readNoted returns the commit that must be in the history: a tip, or that of a signed
// note, which also names its store. It returns nil if none was given.
func (c *FsckCmd) readNoted() (t *witness.SignedTip, err error) {
	switch {
	case c.Against == "" && c.VerifyKey == "":
		return nil, nil
	case c.Against == "":
		return nil, app.Usagef("--verify-key is for the file of a note; want `mneme fsck STORE --against NOTE --verify-key KEY`")
	case c.Store == "":
		return nil, app.Usagef("--against is about one store; want `mneme fsck STORE --against %s`", quote.Text(c.Against))
	case c.VerifyKey == "":
		tip, err := parseTip(c.Against)
		return &witness.SignedTip{Tip: tip}, err
	}
	f, err := os.Open(c.Against)
	if err != nil {
		return nil, fmt.Errorf("note: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, witness.MaxNote+1))
	if err != nil {
		return nil, fmt.Errorf("note: %w", err)
	}
	said, err := witness.ReadNote(text, c.VerifyKey)
	if errors.Is(err, witness.ErrKey) {
		return nil, fmt.Errorf("--verify-key %s: %w; want the key itself, as `mneme store sign --new-key` has printed it", quote.Text(c.VerifyKey), err)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", quote.Text(c.Against), err)
	}
	return &said, nil
}

// checkNoted makes sure that a note is about a store.
func checkNoted(t *witness.SignedTip, s versionlog.Store) error {
	if t != nil && t.StoreID != "" && t.StoreID != s.ID {
		return fmt.Errorf("%w about store %s: it is about %s, and %s is %s; want a note that `mneme store sign %s` has printed",
			witness.ErrNote, s.Slug, quote.Name(t.StoreID), s.Slug, s.ID, s.Slug)
	}
	return nil
}
