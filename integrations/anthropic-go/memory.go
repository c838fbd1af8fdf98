// Package mnemetool plugs mneme's memory tool into the tool loop of the official SDK of
// Anthropic for Go, which has no helper for it. It is a module of its own, so that mneme does
// not depend on the SDK.
package mnemetool

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"

	"github.com/anthropics/anthropic-sdk-go/v2"

	"mneme/tools"
)

// Tool is the memory tool, for Beta.Messages.NewToolRunner. Definition goes into the Tools of
// its parameters, so that the model is told of memory_20250818 and not of a tool of ours.
type Tool struct{ Memory *tools.Memory }

// Definition is what tells the API of the tool.
func Definition() anthropic.BetaToolUnionParam {
	return anthropic.BetaToolUnionParam{OfMemoryTool20250818: &anthropic.BetaMemoryTool20250818Param{}}
}

// Name is the name that the API gives the tool.
func (Tool) Name() string { return "memory" }

// Description is not sent: Definition stands for it.
func (Tool) Description() string { return "" }

// InputSchema is not sent: Definition stands for it.
func (Tool) InputSchema() anthropic.BetaToolInputSchemaParam {
	return anthropic.BetaToolInputSchemaParam{}
}

// Execute does one call.
func (t Tool) Execute(ctx context.Context, input json.RawMessage) ([]anthropic.BetaToolResultBlockParamContentUnion, error) {
	r := t.Memory.Call(ctx, input)
	if r.Error != nil {
		return nil, errors.New(strings.TrimPrefix(r.Text, "Error: ")) // the SDK puts that before it
	}
	blocks := []anthropic.BetaToolResultBlockParamContentUnion{{OfText: &anthropic.BetaTextBlockParam{Text: r.Text}}}
	if r.Image != nil {
		source := anthropic.BetaBase64ImageSourceParam{
			MediaType: anthropic.BetaBase64ImageSourceMediaType(r.Image.MediaType), Data: base64.StdEncoding.EncodeToString(r.Image.Data),
		}
		blocks = append(blocks, anthropic.BetaToolResultBlockParamContentUnion{OfImage: &anthropic.BetaImageBlockParam{
			Source: anthropic.BetaImageBlockParamSourceUnion{OfBase64: &source},
		}})
	}
	return blocks, nil
}
