package fusefs

import (
	"regexp"
	"strings"

	"mneme/fusefs/tree"
)

// madeForNames are how programs name a file that they are going to rename over another, or keep
// next to it, after that one; see scratch.go.
var madeForNames = regexp.MustCompile(`^(?:` +
	`\.(.+)\.[A-Za-z0-9]{6}` +
	`|\.(.+)\.(?:bak|new)_[0-9]{10,}_[0-9a-z]*\.tmp` +
	`|\.?(.+?)\.(?:tmp|vsctmp|new|incomplete|crdownload)(?:[.-].*)?` +
	`|(.+)___jb_(?:tmp|old)___` +
	`|\.~(.+)` +
	`|(.+)\.(?:gawk\.|o)?[A-Za-z0-9]{6}` +
	`|\.(.+)\.sw[a-z]x?` +
	`|#(.+)#` +
	`|(.+)~` +
	`)$`)

// madeForLocked returns the path of the memory that a file is meant to replace, where its name
// says so and that memory is there; else its own.
func madeForLocked(n *tree.Entry) string {
	path, _ := n.PathLocked()
	m := madeForNames.FindStringSubmatch(n.NameLocked())
	if m == nil || !n.HasUnloggedNameLocked() {
		return path
	}
	name := strings.Join(m[1:], "") // one of them
	if target := n.ParentLocked().ChildLocked(name); !target.IsMemoryLocked() {
		return path
	}
	return strings.TrimSuffix(path, n.NameLocked()) + name
}
