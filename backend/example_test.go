package backend_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"mneme/backend"
	"mneme/memory"
	"mneme/versionlog"
)

// A program opens the stores of a URL, makes one, and writes and reads a memory.
func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "mneme-*")
	check(err)
	defer os.RemoveAll(dir)
	lib, err := backend.Open(ctx, "file://"+dir, &backend.Options{Create: true})
	check(err)
	defer lib.Close()
	notes, err := lib.CreateStore(ctx, "notes", nil)
	check(err)
	author := &memory.Author{Actor: versionlog.Actor{Kind: versionlog.ActorUser, ID: "ada"}}
	store, err := lib.Open(ctx, notes.ID, author)
	check(err)
	_, err = store.Write(ctx, "/todo.md", []byte("- write\n"), versionlog.ExpectAbsent())
	check(err)
	v, text, err := store.Read(ctx, "/todo.md")
	check(err)
	fmt.Printf("%s:%s@%d by %v: %s", notes.Slug, v.Path, v.Seq, v.Actor, text)
	// Output: notes:/todo.md@1 by user:ada: - write
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
