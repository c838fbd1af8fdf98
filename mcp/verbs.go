package mcp

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"mneme/errkind"
	"mneme/tools"
)

// verbs are the operations of the tools. The error of one is an *Error of package tools, or
// one of JSON-RPC.
var verbs = map[string]func(*face, context.Context, *call) (*answer, error){
	"memory":    (*face).memory,
	"list":      (*face).list,
	"read":      (*face).read,
	"write":     (*face).write,
	"search":    (*face).search,
	"history":   (*face).history,
	"diff":      (*face).diff,
	"restore":   (*face).restore,
	"conflicts": (*face).conflicts,
}

// addTools gives a server the tools.
func (f *face) addTools(server *sdk.Server, log *slog.Logger) {
	for _, s := range f.specs() {
		server.AddTool(s.tool(), func(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			began := time.Now()
			a, err := verbs[s.Name](f, ctx, newCall(r, s))
			kind := errkind.None
			var own *tools.Error
			var protocol *jsonrpc.Error
			switch {
			case errors.As(err, &own):
				a = failure(own)
			case errors.As(err, &protocol), err != nil && ctx.Err() != nil:
				return nil, err
			case err != nil:
				log.Warn("call failed", "tool", s.Name, "err", err)
				return nil, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: broken}
			}
			if a.failure != nil {
				kind = a.failure.Kind
			}
			log.LogAttrs(ctx, slog.LevelDebug, "tool", slog.String("tool", s.Name), slog.String("kind", kind.String()), slog.Duration("took", time.Since(began)))
			return a.result(), nil
		})
	}
}

// broken is what a client is told of a fault of the server.
const broken = "something is broken here; whether a change was made is not known"
