package archtest

import (
	"fmt"
	"go/types"
)

// entryTypes are the types of a file or directory of a mount's tree: the first that there
// is has what is measured.
var entryTypes = []string{"fusefs/tree.Entry", "fusefs.entry", "fusefs.node"}

// sizedTypes are others of which the size is told. That of listedType may not grow, either: a mount
// has one for each file that the kernel knows.
var sizedTypes = []string{"fusefs.inode", "fusefs.openFile", "fusefs.stage", "fusefs.store", "fusefs.fileSystem", "session.Knowledge", "memory.Head"}

const listedType = "fusefs.inode"

// Measures returns the numbers about the mount, of the module and of its files, tests
// included.
func (m *Module) Measures(files []*file) ([]measure, error) {
	all := []measure{callerComments(files)}
	name, entry := m.firstStruct(entryTypes)
	if entry == nil {
		return nil, fmt.Errorf("none of %v is there: say in measures.go what an entry of the tree is called", entryTypes)
	}
	sizes := types.SizesFor("gc", "amd64")
	all = append(all,
		measure{name: "fields of an entry", value: entry.NumFields(), note: name},
		measure{name: "bytes of an entry", value: int(sizes.Sizeof(entry)), note: name})
	for _, name := range sizedTypes {
		if _, s := m.firstStruct([]string{name}); s != nil {
			all = append(all, measure{name: "bytes of " + name, value: int(sizes.Sizeof(s)), note: fmt.Sprint(s.NumFields(), " fields"), figure: name != listedType})
		}
	}
	writers, callers := m.writersOf(name, "head")
	all = append(all, writers, callers, m.stateConditions(name), m.reachedFiles("(*"+module+"/fusefs.fileSystem).Rename"))
	inside, err := m.insideUses()
	if err != nil {
		return nil, err
	}
	references, err := m.fsReferences()
	return append(append(all, inside, references), rooms(files)...), err
}
