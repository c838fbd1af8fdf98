package main

import (
	"fmt"
	"strconv"
	"strings"

	"mneme/cas"
	"mneme/versionlog"
)

// point is a commit on the command line, by which a history is recognized, as
// `mneme store show` prints it: SEQ:DIGEST, or DIGEST alone.
type point versionlog.Tip

// UnmarshalText reads a point.
func (p *point) UnmarshalText(text []byte) error {
	number, digest, both := strings.Cut(string(text), ":")
	if !both {
		number, digest = "", number
	}
	var err error
	if p.Digest, err = cas.ParseDigest(digest); err != nil {
		return fmt.Errorf("%w; want DIGEST or SEQ:DIGEST, as the tip in `mneme store show`", err)
	}
	if !both {
		return nil
	}
	if p.Seq, err = strconv.ParseUint(number, 10, 64); err != nil || p.Seq == 0 {
		return fmt.Errorf("%q is no sequence number; want SEQ:DIGEST, as the tip in `mneme store show`", number)
	}
	return nil
}

func (p *point) String() string {
	if p.Seq == 0 {
		return p.Digest.String()
	}
	return strconv.FormatUint(p.Seq, 10) + ":" + p.Digest.String()
}

// tipText is a tip as point reads it, "none" before the first commit.
func tipText(tip versionlog.Tip) string {
	if tip.Seq == 0 {
		return "none"
	}
	p := point(tip)
	return p.String()
}
