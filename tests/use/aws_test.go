package use

import (
	"testing"

	"mneme/internal/testing/turn"
)

// TestOnAWS runs the tests of mounts as people and programs use them once more, on S3 and
// DynamoDB instead of the embedded store.
func TestOnAWS(t *testing.T) {
	t.Parallel()
	t.Logf("%s=%d", turn.Variable, turn.Number())
	for i, test := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"Shell", TestShell}, {"Coreutils", TestCoreutils}, {"Editors", TestEditors}, {"Sync", TestSync}, {"Languages", TestLanguages},
		{"AnyContent", TestAnyContent}, {"TooBig", TestTooBig}, {"NotText", TestNotText}, {"Names", TestNames},
		{"NamesFromElsewhere", TestNamesFromElsewhere}, {"OtherLimits", TestOtherLimits}, {"Refused", TestRefused},
		{"FsyncThroughAnyDescriptor", TestFsyncThroughAnyDescriptor}, {"Handles", TestHandles}, {"Directories", TestDirectories},
		{"Remount", TestRemount}, {"Scratch", TestScratch}, {"TemporaryNames", TestTemporaryNames},
		{"UnmountSavesOpenFiles", TestUnmountSavesOpenFiles}, {"ChangesArrive", TestChangesArrive},
		{"OpenReadersKeepTheirVersion", TestOpenReadersKeepTheirVersion}, {"XattrsTellTheVersion", TestXattrsTellTheVersion},
		{"CommandLineBesideMount", TestCommandLineBesideMount}, {"ConditionalWriteBesideMount", TestConditionalWriteBesideMount},
		{"ReadOnly", TestReadOnly}, {"ReadOnlyFollows", TestReadOnlyFollows}, {"ArchivedWhileMounted", TestArchivedWhileMounted},
		{"Metrics", TestMetrics}, {"EndOfMountedStore", TestEndOfMountedStore}, {"PlacesInMounts", TestPlacesInMounts},
		{"PastInTheMount", TestPastInTheMount}, {"PastBesideWriters", TestPastBesideWriters},
		{"VersionsAndEvents", TestVersionsAndEvents}, {"MountOfThePast", TestMountOfThePast},
		{"RedactedEverywhere", TestRedactedEverywhere}, {"RedactedOnServer", TestRedactedOnServer},
	} {
		if turn.Due(i, 4) {
			t.Run(test.name, test.run)
		}
	}
}
