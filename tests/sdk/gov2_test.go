package sdk

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/anthropics/anthropic-sdk-go/v2"
	"github.com/anthropics/anthropic-sdk-go/v2/option"
	"github.com/anthropics/anthropic-sdk-go/v2/packages/pagination"
	"github.com/anthropics/anthropic-sdk-go/v2/packages/param"
)

// goV2 is the Go SDK. The file of goV1 is this one, but for the version; TestGoClients holds that.
type goV2 struct{ anthropic.Client }

func newGoV2(url string) client {
	return goV2{anthropic.NewClient(option.WithBaseURL(url))}
}

func (g goV2) do(ctx context.Context, c call) (answer, *failure) {
	opts := []option.RequestOption{option.WithAPIKey(c.Credential)}
	if c.Once != "" {
		opts = append(opts, option.WithHeader("x-idempotency-key", c.Once))
	}
	one, list, err := g.ask(ctx, c, opts)
	if err == nil && list != nil {
		return answerOfV2(list)
	}
	var e *anthropic.Error
	switch {
	case errors.As(err, &e):
		return answer{}, &failure{Status: e.StatusCode, Type: string(e.Type()), RequestID: e.RequestID, Body: json.RawMessage(e.RawJSON())}
	case err != nil:
		return answer{}, &failure{Type: err.Error()}
	}
	return answerOfV2(map[string]any{"data": []any{one}})
}

func answerOfV2(read any) (a answer, f *failure) {
	data, err := json.Marshal(read)
	if err == nil {
		err = json.Unmarshal(data, &a)
	}
	if err != nil {
		return a, &failure{Type: err.Error()}
	}
	return a, nil
}

// ask makes a call, which has one object or a list as its answer.
func (g goV2) ask(ctx context.Context, c call, opts []option.RequestOption) (one, list any, err error) {
	stores, p := g.Beta.MemoryStores, c.Params
	switch c.Op {
	case "stores.create":
		one, err = stores.New(ctx, anthropic.BetaMemoryStoreNewParams{Name: p.Name, Description: givenV2(p.Description), Metadata: p.Metadata}, opts...)
	case "stores.retrieve":
		one, err = stores.Get(ctx, c.ID, anthropic.BetaMemoryStoreGetParams{}, opts...)
	case "stores.update":
		one, err = stores.Update(ctx, c.ID, anthropic.BetaMemoryStoreUpdateParams{Name: givenV2(p.Name), Description: givenV2(p.Description), Metadata: p.Metadata}, opts...)
	case "stores.list":
		of := anthropic.BetaMemoryStoreListParams{
			IncludeArchived: givenV2(p.IncludeArchived), Limit: givenV2(p.Limit), Page: givenV2(p.Page), CreatedAtGte: timeV2(p.From), CreatedAtLte: timeV2(p.To),
		}
		if c.All {
			list, err = allV2(stores.ListAutoPaging(ctx, of, opts...))
		} else {
			list, err = stores.List(ctx, of, opts...)
		}
	case "stores.archive":
		one, err = stores.Archive(ctx, c.ID, anthropic.BetaMemoryStoreArchiveParams{}, opts...)
	case "stores.delete":
		one, err = stores.Delete(ctx, c.ID, anthropic.BetaMemoryStoreDeleteParams{}, opts...)
	case "memories.create":
		one, err = stores.Memories.New(ctx, c.ID, anthropic.BetaMemoryStoreMemoryNewParams{
			Path: p.Path, Content: param.NewOpt(*p.Content), View: anthropic.BetaManagedAgentsMemoryView(p.View),
		}, opts...)
	case "memories.retrieve":
		one, err = stores.Memories.Get(ctx, c.ID, anthropic.BetaMemoryStoreMemoryGetParams{MemoryStoreID: p.StoreID, View: anthropic.BetaManagedAgentsMemoryView(p.View)}, opts...)
	case "memories.update":
		u := anthropic.BetaMemoryStoreMemoryUpdateParams{MemoryStoreID: p.StoreID, Path: givenV2(p.Path), View: anthropic.BetaManagedAgentsMemoryView(p.View)}
		if p.Content != nil {
			u.Content = param.NewOpt(*p.Content)
		}
		if p.Precondition != nil {
			u.Precondition = anthropic.BetaManagedAgentsPreconditionParam{Type: "content_sha256", ContentSha256: param.NewOpt(p.Precondition.SHA256)}
		}
		one, err = stores.Memories.Update(ctx, c.ID, u, opts...)
	case "memories.list":
		of := anthropic.BetaMemoryStoreMemoryListParams{
			PathPrefix: givenV2(p.PathPrefix), Depth: givenV2(p.Depth), Limit: givenV2(p.Limit), Page: givenV2(p.Page), View: anthropic.BetaManagedAgentsMemoryView(p.View),
		}
		if c.All {
			list, err = allV2(stores.Memories.ListAutoPaging(ctx, c.ID, of, opts...))
		} else {
			list, err = stores.Memories.List(ctx, c.ID, of, opts...)
		}
	case "memories.delete":
		one, err = stores.Memories.Delete(ctx, c.ID, anthropic.BetaMemoryStoreMemoryDeleteParams{MemoryStoreID: p.StoreID, ExpectedContentSha256: givenV2(p.ExpectedSHA256)}, opts...)
	default:
		return g.askVersions(ctx, c, opts)
	}
	return one, list, err
}

func (g goV2) askVersions(ctx context.Context, c call, opts []option.RequestOption) (one, list any, err error) {
	versions, p := g.Beta.MemoryStores.MemoryVersions, c.Params
	switch c.Op {
	case "memoryVersions.retrieve":
		one, err = versions.Get(ctx, c.ID, anthropic.BetaMemoryStoreMemoryVersionGetParams{MemoryStoreID: p.StoreID, View: anthropic.BetaManagedAgentsMemoryView(p.View)}, opts...)
	case "memoryVersions.redact":
		one, err = versions.Redact(ctx, c.ID, anthropic.BetaMemoryStoreMemoryVersionRedactParams{MemoryStoreID: p.StoreID}, opts...)
	case "memoryVersions.list":
		of := anthropic.BetaMemoryStoreMemoryVersionListParams{
			MemoryID: givenV2(p.MemoryID), Operation: anthropic.BetaManagedAgentsMemoryVersionOperation(p.Operation), SessionID: givenV2(p.SessionID),
			APIKeyID: givenV2(p.APIKeyID), ServiceAccountID: givenV2(p.ServiceAccountID), CreatedAtGte: timeV2(p.From), CreatedAtLte: timeV2(p.To),
			Limit: givenV2(p.Limit), Page: givenV2(p.Page), View: anthropic.BetaManagedAgentsMemoryView(p.View),
		}
		if c.All {
			list, err = allV2(versions.ListAutoPaging(ctx, c.ID, of, opts...))
		} else {
			list, err = versions.List(ctx, c.ID, of, opts...)
		}
	default:
		err = fmt.Errorf("there is no call %s", c.Op)
	}
	return one, list, err
}

// allV2 reads all pages.
func allV2[T any](pages *pagination.PageCursorAutoPager[T]) (any, error) {
	all := []T{}
	for pages.Next() {
		all = append(all, pages.Current())
	}
	return map[string]any{"data": all}, pages.Err()
}

// givenV2 is a parameter, which is not given if it is zero.
func givenV2[T comparable](value T) (opt param.Opt[T]) {
	if value != *new(T) {
		opt = param.NewOpt(value)
	}
	return opt
}

func timeV2(at time.Time) param.Opt[time.Time] { return givenV2(at) }
