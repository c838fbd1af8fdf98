package tree

import (
	"testing"
	"time"

	"mneme/versionlog"
)

// TestKinds: what an entry is to the log, where it is, and where what is written to it goes.
func TestKinds(t *testing.T) {
	w := newWorld(t)
	seq := uint64(0)
	write := func(path string) *Entry {
		seq++
		w.InstallLocked(versionlog.Version{ID: path, Path: path, Seq: seq, Op: versionlog.OpCreated, MemoryID: path, Time: time.Now()})
		return w.FindLocked(path)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.told.used = func(*Entry) bool { return true }
	file := write("/d/memory")
	d := file.parent
	draft := w.MakeFileLocked(d, "draft", 0o600, time.Now())
	hidden := write("/d/hidden")
	w.HideLocked(moveOf(d, hidden, "hidden~"))
	former := write("/d/again")
	latest := write("/d/again")
	lost := write("/d/lost")
	w.LeftLocked(lost, time.Now())
	removed := write("/d/removed")
	w.RemovedLocked(removed)
	inHiddenDir := write("/d/e/f")
	hiddenDir := inHiddenDir.parent
	w.HideLocked(moveOf(d, inHiddenDir, "f~"))
	w.RemovedDirLocked(d, hiddenDir, "e", "e")

	type path struct {
		path string
		ok   bool
	}
	tests := []struct {
		name                       string
		n                          *Entry
		memory, inLog, alone, gone bool
		path, logPath, target      path
		latest                     *Entry
	}{
		{"root", w.root, false, false, false, false, path{"", true}, path{"", true}, path{"", true}, w.root},
		{"directory", d, false, false, false, false, path{"/d", true}, path{"/d", true}, path{"/d", true}, d},
		{"memory", file, true, true, false, false, path{"/d/memory", true}, path{"/d/memory", true}, path{"/d/memory", true}, file},
		{"draft", draft, false, false, true, false, path{"/d/draft", true}, path{"/d/draft", true}, path{"/d/draft", true}, draft},
		{"hidden", hidden, false, true, false, false, path{"/d/hidden~", true}, path{"/d/hidden", true}, path{"/d/hidden~", true}, hidden},
		{"superseded", former, true, true, false, true, path{"", false}, path{"", false}, path{"/d/again", true}, latest},
		{"lost", lost, true, true, false, false, path{"", false}, path{"", false}, path{"/d/lost", false}, lost},
		{"removed", removed, true, true, false, true, path{"", false}, path{"", false}, path{"", false}, removed},
		{"hidden directory", hiddenDir, false, false, false, true, path{"/d/e", true}, path{"/d/e", true}, path{"/d/e", true}, hiddenDir},
		{"hidden from a hidden directory", inHiddenDir, false, true, false, false, path{"/d/f~", true}, path{"/d/e/f", true}, path{"/d/f~", true}, inHiddenDir},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			n := test.n
			if n.IsMemoryLocked() != test.memory || n.InLogLocked() != test.inLog || n.IsMountOnlyLocked() != test.alone || n.IsGoneLocked() != test.gone {
				t.Errorf("it is a memory: %v, in the log: %v, of the mount alone: %v, gone: %v", n.IsMemoryLocked(), n.InLogLocked(), n.IsMountOnlyLocked(), n.IsGoneLocked())
			}
			for what, at := range map[string]struct {
				get  func() (string, bool)
				want path
			}{
				"path": {n.PathLocked, test.path}, "path in the log": {n.LogPathLocked, test.logPath}, "target": {n.TargetLocked, test.target},
			} {
				if got, ok := at.get(); (path{got, ok}) != at.want {
					t.Errorf("its %s is %q, %v, want %+v", what, got, ok, at.want)
				}
			}
			if got := n.LatestLocked(); got != test.latest {
				t.Errorf("what stands for it is %s", got.name)
			}
		})
	}
	if allocs := testing.AllocsPerRun(10, func() { file.PathLocked() }); allocs > 0 {
		t.Errorf("the path of a memory takes %v allocations", allocs)
	}
	if former.head.Seq() == latest.head.Seq() {
		t.Error("a file that is used has got the version of another session")
	}
}
