package view

import (
	"strconv"

	"mneme/versionlog"
)

// TipText is a tip in the form of --against, "none" before the first commit.
func TipText(tip versionlog.Tip) string {
	switch {
	case tip.Seq == 0 && tip.Digest.IsZero():
		return "none"
	case tip.Seq == 0:
		return tip.Digest.String()
	}
	return strconv.FormatUint(tip.Seq, 10) + ":" + tip.Digest.String()
}
