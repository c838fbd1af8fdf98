package mcp

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"mneme/internal/quote"
	"mneme/tools"
)

// maxNamed is how many files are named to an agent that is to name them itself.
const maxNamed = 50

// stateless is the revision of the protocol from which on a question to the client is a
// result of its request.
const stateless = "2026-07-28"

// question is the key of the only question that a result holds.
const question = "confirm"

// confirm asks whether to delete the directory of a call with everything in it. If it returns
// no answer, it returns the files that may be deleted; nil: the call decides.
//
//  1. A client that can ask its user gets a question, and a signed state that says which files
//     it is about.
//  2. The call comes again with the answer and the state. If the files are still those, and the
//     answer is yes, the deletion is made; if others have come or changed, the question is
//     asked again. Files that change after this look are not deleted either:
//     tools.Memory.CallAgreed.
//  3. Another client gets an error that names files: a call that names them deletes them.
func (f *face) confirm(ctx context.Context, c *call, path string) (agreed []tools.Entry, asked *answer, err error) {
	files, err := f.filesBelow(ctx, path)
	if err != nil {
		return nil, nil, err
	}
	now := state{expiry: f.now().Add(stateLife).Unix(), call: sha256.Sum256([]byte("memory\x00delete\x00" + path)), subject: digestOf(files)}
	if c.Params.RequestState == "" {
		if len(files) < 2 {
			return files, nil, nil
		}
		return nil, f.ask(c, path, files, &now), nil
	}
	before, valid := openState(f.key, c.Params.RequestState, f.now())
	if !valid || before.call != now.call {
		return nil, nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "the request state is not valid: call again without it"}
	}
	said, isAnswer := c.Params.InputResponses[question].(*sdk.ElicitResult)
	switch {
	case isAnswer && !isYes(said):
		return nil, &answer{text: []string{"Nothing was deleted."}}, nil
	case isAnswer && before.subject == now.subject, len(files) < 2:
		return files, nil, nil
	case c.ProtocolVersion() < stateless: // the question was put within this call, which can put one only
		return nil, failure(tools.Refusal(fmt.Sprintf("Error: What is in %s has changed since it was asked about; nothing was deleted. Try again.", quote.Text(path)))), nil
	}
	return nil, f.ask(c, path, files, &now), nil
}

// isYes reports whether a user has agreed.
func isYes(said *sdk.ElicitResult) bool {
	yes, _ := said.Content[question].(bool)
	return said.Action == "accept" && yes
}

// digestOf tells files with their versions from others.
func digestOf(files []tools.Entry) (d [sha256.Size]byte) {
	h := sha256.New()
	for _, file := range files {
		fmt.Fprintf(h, "%s\x00%s\x00", file.Path, file.Version)
	}
	return [sha256.Size]byte(h.Sum(nil))
}

// ask is the answer that asks whether to delete files.
func (f *face) ask(c *call, path string, files []tools.Entry, s *state) *answer {
	if !canAsk(c) {
		return failure(tools.Refusal(nameThem(path, files)))
	}
	return &answer{asks: &sdk.CallToolResult{
		RequestState: s.sign(f.key),
		InputRequests: sdk.InputRequestMap{question: &sdk.ElicitParams{
			Mode:            "form",
			Message:         fmt.Sprintf("Delete the %d files in %s? Their history stays.", len(files), quote.Text(path)),
			RequestedSchema: json.RawMessage(`{"type":"object","properties":{"confirm":{"type":"boolean","title":"Delete them"}},"required":["confirm"]}`),
		}},
	}}
}

// canAsk reports whether the client can put a form to its user.
func canAsk(c *call) bool {
	can := c.ClientCapabilities()
	return can != nil && can.Elicitation != nil && (can.Elicitation.Form != nil || can.Elicitation.URL == nil)
}

// nameThem is the error for an agent whose client cannot ask.
func nameThem(path string, files []tools.Entry) string {
	names := make([]string, min(len(files), maxNamed))
	for i := range names {
		names[i] = files[i].Path
	}
	text := fmt.Sprintf("Error: %s holds %d files, and nothing was deleted. Delete files by naming them, in paths: command delete, paths %s", quote.Text(path), len(files), listed(names))
	if rest := len(files) - len(names); rest > 0 {
		text += fmt.Sprintf(" and %d more", rest)
	}
	return text + "."
}

// listed shows paths as JSON: in plain words, the name of one file can look like several, or like
// files elsewhere.
func listed(paths []string) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(paths) // strings always can be
	return string(quote.JSON(bytes.TrimSpace(b.Bytes())))
}

// isWhole reports whether a path is a store or all of them, which are not deleted.
func (f *face) isWhole(path string) bool {
	_, inside, found := f.store(strings.TrimRight(path, "/"))
	return !found || inside == ""
}

// filesBelow returns the files of a directory that a call would delete; nil if that needs
// no question. A directory that cannot be looked up is an error, since it could not be
// asked about.
func (f *face) filesBelow(ctx context.Context, path string) ([]tools.Entry, error) {
	s, _, found := f.store(path)
	if !found || s.ReadOnly || f.isWhole(path) {
		return nil, nil
	}
	files, err := f.Below(ctx, path)
	var e *tools.Error
	switch {
	case errors.As(err, &e) && cannotBe(e):
		return nil, nil // the call itself says so
	case err != nil:
		return nil, err
	}
	return append([]tools.Entry{}, files...), nil
}
