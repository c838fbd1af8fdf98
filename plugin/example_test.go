package plugin_test

import (
	"context"
	"fmt"

	"mneme/cas"
	"mneme/cas/memcas"
	"mneme/memory"
	"mneme/plugin"
	"mneme/session"
	"mneme/tools"
	"mneme/versionlog/memlog"
)

// A host remembers a turn, and recalls it for another one.
func Example() {
	ctx := context.Background()
	blobs := memcas.New()
	lib := memory.NewLibrary(memlog.New(nil), func(string) (cas.Store, error) { return blobs, nil })
	info, err := lib.CreateStore(ctx, "notes", nil)
	if err != nil {
		panic(err)
	}
	store, err := lib.Open(ctx, info.ID, memory.SessionAuthor("s1"))
	if err != nil {
		panic(err)
	}
	own := session.New(store, &session.Options{ID: "s1"})
	defer own.Close()

	provider := plugin.New(tools.New([]tools.Place{{Store: store, Session: own}}, nil), nil)
	defer provider.Close()
	turn := plugin.Batch{Request: plugin.Request{ThreadID: "t1", TurnID: "7"}, Entries: []plugin.Entry{{Role: "user", Text: "We ship on Friday."}}}
	for range 2 {
		answer := provider.Remember(ctx, turn)
		fmt.Println(answer.Written, answer.Diagnostics.Receipt.Entries[0].Status)
	}
	for _, item := range provider.Recall(ctx, plugin.Request{QueryText: "When do we ship?"}).Items {
		fmt.Printf("%s\n%s\n", item.Path, item.Text)
	}
	// Output:
	// 1 written
	// 0 already
	// /threads/t1/7.md
	// ## user
	//
	// We ship on Friday.
}
