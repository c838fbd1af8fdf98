// Package use holds what people and programs may expect of one mount, and of the
// command line beside it.
package use

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"mneme/tests/harness"
)

// notRaced are the tests of one program on a mount that works for long, or is refused at
// once, and what TestOnAWS repeats of them.
var notRaced = regexp.MustCompile("^Test(OnAWS/)?(" + strings.Join([]string{
	"Shell", "Coreutils", "Editors", "Sync", "Languages", "SQLite", "AnyContent", "GoSources", "Model",
	"TooBig", "NotText", "Names", "NamesFromElsewhere", "NamesFromMac", "OtherLimits", "Refused", "DeleteWhereTheDiskIsFull",
	"Handles", "Directories", "Scratch", "TemporaryNames", "FsyncThroughAnyDescriptor", "Remount", "ReadOnly", "Metrics",
	"XattrsTellTheVersion", "CopiesWithXattrs", "CommandLineBesideMount", "ConditionalWriteBesideMount", "VisibilityDelay",
	"EndOfMountedStore", "PlacesInMounts", "PastInTheMount", "VersionsAndEvents", "MountOfThePast",
}, "|") + ")(/|$)")

func TestMain(m *testing.M) {
	harness.NotRaced = notRaced
	os.Exit(harness.Main(m, map[string]func(args []string) error{"memserver": memServerChild}))
}
