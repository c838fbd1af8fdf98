package tools_test

import (
	"context"
	"fmt"

	"mneme/cas"
	"mneme/cas/memcas"
	"mneme/memory"
	"mneme/session"
	"mneme/tools"
	"mneme/versionlog/memlog"
)

// A host hands on what the model sent, and sends back the text.
func ExampleMemory_Call() {
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
	s := session.New(store, &session.Options{ID: "s1", Name: tools.PathName("notes", false)})
	defer s.Close()
	m := tools.New([]tools.Place{{Store: store, Session: s}}, &tools.Options{Budget: session.NewBudget(3, 0)})
	for _, input := range []string{
		`{"command": "create", "path": "/memories/plan.md", "file_text": "build"}`,
		`{"command": "str_replace", "path": "/memories/plan.md", "old_str": "build", "new_str": "ship"}`,
		`{"command": "str_replace", "path": "/memories/plan.md", "old_str": "build", "new_str": "ship"}`,
		`{"command": "view", "path": "/memories/plan.md"}`,
	} {
		fmt.Println(m.Call(ctx, []byte(input)).Text)
	}
	// Output:
	// File created successfully at: /memories/plan.md
	// The memory file has been edited.
	//      1	ship
	// No replacement was performed, old_str `build` did not appear verbatim in /memories/plan.md.
	// Error: The budget of 3 memory calls for this quest is used up; nothing was done. Go on with what you know.
}
