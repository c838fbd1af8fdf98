package gate

import (
	"net/http"

	"mneme/gateway/wire"
	"mneme/server/access"
)

// Route is one operation.
type Route struct {
	Method, Path string
	Name         string // such as gateway.head
	Right        access.Right
	do           func(*call) error
}

// Routes are all operations. The right is that in the store that a request names; where it
// names none, that in any store. A commit takes Admin if it has an event, or was made
// elsewhere.
var Routes = routes()

func routes() []Route {
	var all []Route
	for _, one := range []struct {
		op    string
		right access.Right
		do    func(*call) error
	}{
		{wire.OpHello, access.None, hello},
		{wire.OpCreateStore, access.Admin, change(createStore)},
		{wire.OpStore, access.Read, ask(store)},
		{wire.OpStores, access.Read, walk(stores)},
		{wire.OpDeleteStore, access.Admin, change(deleteStore)},
		{wire.OpCommit, access.Write, commit},
		{wire.OpTip, access.Read, ask(tip)},
		{wire.OpHead, access.Read, ask(head)},
		{wire.OpLast, access.Read, ask(last)},
		{wire.OpHeld, access.Read, ask(held)},
		{wire.OpHeads, access.Read, walk(heads)},
		{wire.OpChildren, access.Read, walk(children)},
		{wire.OpVersion, access.Read, ask(version)},
		{wire.OpHistory, access.Read, walk(history)},
		{wire.OpPathHistory, access.Read, walk(pathHistory)},
		{wire.OpNewest, access.Read, ask(newest)},
		{wire.OpAt, access.Read, ask(at)},
		{wire.OpSeqAt, access.Read, ask(seqAt)},
		{wire.OpCommits, access.Read, walk(commits)},
		{wire.OpCommitsBefore, access.Read, walk(commitsBefore)},
		{wire.OpFollow, access.Read, follow},
		{wire.OpPurge, access.Admin, change(purge)},
		{wire.OpUnpurged, access.Admin, ask(unpurged)},
		{wire.OpForget, access.Admin, forgetKept},
		{wire.OpLeft, access.Admin, change(left)},
		{wire.OpGetBlobs, access.Read, getBlobs},
		{wire.OpHasBlobs, access.Read, ask(hasBlobs)},
		{wire.OpPutBlob, access.Write, putBlob},
	} {
		all = append(all, Route{http.MethodPost, wire.Prefix + one.op, "gateway." + one.op, one.right, one.do})
	}
	return all
}
