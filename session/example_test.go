package session_test

import (
	"context"
	"errors"
	"fmt"
	"os"

	"mneme/cas"
	"mneme/cas/memcas"
	"mneme/memory"
	"mneme/session"
	"mneme/session/conflict"
	"mneme/versionlog"
	"mneme/versionlog/memlog"
)

// open opens a store in the name of a session.
func open(lib *memory.Library, store, id string) *memory.Store {
	st, err := lib.Open(context.Background(), store, memory.SessionAuthor(id))
	if err != nil {
		panic(err)
	}
	return st
}

// library makes a library in memory that has one store.
func library() (lib *memory.Library, store string) {
	blobs := memcas.New()
	lib = memory.NewLibrary(memlog.New(nil), func(string) (cas.Store, error) { return blobs, nil })
	info, err := lib.CreateStore(context.Background(), "notes", nil)
	if err != nil {
		panic(err)
	}
	return lib, info.ID
}

// Two sessions read a memory and write it. The second write is refused, and what it would
// have written is kept.
func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "conflicts")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	kept := conflict.New(dir)

	lib, store := library()
	ann := session.New(open(lib, store, "ann"), &session.Options{ID: "ann", Conflicts: kept})
	bob := session.New(open(lib, store, "bob"), &session.Options{ID: "bob", Conflicts: kept})
	defer ann.Close()
	defer bob.Close()

	if _, err := ann.Write(ctx, "/todo.md", []byte("- milk\n"), nil); err != nil {
		panic(err)
	}
	if _, _, err := bob.Read(ctx, "/todo.md"); err != nil {
		panic(err)
	}
	if _, err := ann.Write(ctx, "/todo.md", []byte("- milk\n- bread\n"), nil); err != nil {
		panic(err)
	}
	_, err = bob.Write(ctx, "/todo.md", []byte("- milk\n- eggs\n"), nil)
	var lost *session.LostError
	if errors.As(err, &lost) {
		_, texts, err := bob.Conflicts().Get(lost.Conflict)
		fmt.Printf("refused, and kept: %q %v\n", texts.Yours, err)
	}

	_, text, _ := bob.Read(ctx, "/todo.md")
	fmt.Printf("what is there: %q\n", text)
	_, err = bob.Write(ctx, "/todo.md", []byte("- milk\n- bread\n- eggs\n"), nil)
	fmt.Println("written again:", err)
	// Output:
	// refused, and kept: "- milk\n- eggs\n" <nil>
	// what is there: "- milk\n- bread\n"
	// written again: <nil>
}

// An append never conflicts.
func ExampleSession_Append() {
	ctx := context.Background()
	lib, store := library()
	for _, id := range []string{"ann", "bob"} {
		s := session.New(open(lib, store, id), &session.Options{ID: id})
		if _, err := s.Append(ctx, "/log.md", []byte(id+" was here\n"), nil); err != nil {
			panic(err)
		}
		s.Close()
	}
	_, text, _ := open(lib, store, "reader").Read(ctx, "/log.md")
	fmt.Print(string(text))
	// Output:
	// ann was here
	// bob was here
}

// An edit is done on top of the newest version, again if another session was faster.
func ExampleSession_Edit() {
	ctx := context.Background()
	lib, store := library()
	s := session.New(open(lib, store, "ann"), &session.Options{ID: "ann"})
	defer s.Close()
	for range 3 {
		_, err := s.Edit(ctx, "/count", func(seen session.Seen) ([]byte, error) {
			return append(seen.Content, 'I'), nil
		}, nil)
		if err != nil {
			panic(err)
		}
	}
	_, text, _ := s.Read(ctx, "/count")
	fmt.Println(string(text))
	// Output: III
}

// All changes of a batch are made in one commit, or none.
func ExampleSession_Batch() {
	ctx := context.Background()
	lib, store := library()
	s := session.New(open(lib, store, "ann"), &session.Options{ID: "ann"})
	defer s.Close()
	if _, err := s.Write(ctx, "/plan.md", []byte("plan"), nil); err != nil {
		panic(err)
	}
	commit, err := s.Batch(ctx, []memory.Change{
		{Action: versionlog.Rename, Path: "/plan.md", To: "/done/plan.md", Expect: versionlog.ExpectExists()},
		{Action: versionlog.Put, Path: "/next.md", Content: []byte("next"), Expect: versionlog.ExpectAbsent()},
	}, &session.WriteOptions{Message: "next week"})
	fmt.Println(len(commit.Versions), commit.Seq, commit.Message, err)
	// Output: 2 2 next week <nil>
}

// A budget bounds what a session may do.
func ExampleBudget() {
	ctx := context.Background()
	lib, store := library()
	budget := session.NewBudget(2, 0)
	s := session.New(open(lib, store, "ann"), &session.Options{ID: "ann", Budget: budget})
	defer s.Close()
	for range 3 {
		_, err := s.Append(ctx, "/log.md", []byte("line\n"), nil)
		fmt.Println(err)
	}
	// Output:
	// <nil>
	// <nil>
	// the budget is used up: 2 calls are allowed, 2 are used, and this takes 1
}
