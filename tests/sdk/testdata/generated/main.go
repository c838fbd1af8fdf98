// Program generated writes one memory by a client that oapi-codegen has made of the OpenAPI
// document, and prints what it reads of it. Its arguments are a server's URL and a key.
package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
)

func main() {
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(url, key string) error {
	ctx := context.Background()
	client, err := NewClientWithResponses(url, WithRequestEditorFn(func(_ context.Context, r *http.Request) error {
		r.Header.Set("Authorization", "Bearer "+key)
		return nil
	}))
	if err != nil {
		return err
	}
	store, err := client.CreateMemoryStoreWithResponse(ctx, &CreateMemoryStoreParams{}, CreateMemoryStoreJSONRequestBody{Name: "Generated"})
	if err != nil || store.JSON200 == nil {
		return fmt.Errorf("create a store: %w: %s", err, store.Body)
	}
	text := "one\n"
	made, err := client.BatchWithResponse(ctx, store.JSON200.Id, &BatchParams{}, BatchJSONRequestBody{
		Changes: []Change{{Action: ChangeActionPut, Path: "/a.md", Content: &text}},
	})
	if err != nil || made.JSON200 == nil {
		return fmt.Errorf("commit: %w: %s", err, made.Body)
	}
	memories, err := client.ListMemoriesWithResponse(ctx, store.JSON200.Id, &ListMemoriesParams{})
	if err != nil || memories.JSON200 == nil {
		return fmt.Errorf("list: %w: %s", err, memories.Body)
	}
	fmt.Printf("%s\n", memories.Body)
	return nil
}
