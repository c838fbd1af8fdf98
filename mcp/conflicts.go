package mcp

import (
	"context"
	"fmt"
	"strings"
	"unicode/utf8"

	"mneme/internal/plural"
	"mneme/internal/quote"
	"mneme/session"
	"mneme/session/conflict"
	"mneme/tools"
)

// The bounds of the answers of the tool conflicts.
const (
	maxConflicts    = 200
	maxConflictText = 100_000 // bytes of each of the three texts
)

// describe says what a conflict is about, in one line.
func (f *face) describe(a *conflict.About) string {
	return fmt.Sprintf("%d %s, %s, of session %s, %s: %s", a.ID, quote.Text(f.pathOf(a.Store, a.Path)), plural.Of(a.Size, "byte"), quote.Name(a.Session), stamp(a.Time), quote.Line(a.Why))
}

func (f *face) conflicts(ctx context.Context, c *call) (*answer, error) {
	action := c.oneOf("action", true, "list", "show", "resolve", "dismiss")
	store, id, take, text, ifVersion := c.optText("store"), 0, "", tools.Secret{}, ""
	if action != "list" {
		c.want("id", c.fields != nil && c.fields.Has("id"))
		id = c.number("id")
	}
	if action == "resolve" {
		if take = c.oneOf("take", true, "yours", "theirs", "merge", "text"); take == "text" {
			text = c.secret("text")
		}
		ifVersion = c.version("if_version", tools.IfNone)
	}
	if err := c.done(); err != nil {
		return nil, err
	}
	switch action {
	case "list":
		return f.listConflicts(ctx, store)
	case "show":
		return f.showConflict(ctx, store, id)
	case "dismiss":
		if err := f.Dismiss(ctx, store, id); err != nil {
			return nil, err
		}
		return settled(id, "Conflict %d is dismissed; the file is as it was."), nil
	}
	made, err := f.Resolve(ctx, store, id, session.Resolution{Take: takes[take], Data: []byte(text.Reveal())}, ifVersion)
	if err != nil {
		return nil, err
	}
	return resolved(id, made), nil
}

func (f *face) listConflicts(ctx context.Context, store string) (*answer, error) {
	list, err := f.Conflicts(ctx, store)
	if err != nil {
		return nil, err
	}
	more := max(0, len(list)-maxConflicts)
	var lines []string
	for i := range list[:len(list)-more] {
		lines = append(lines, f.describe(&list[i]))
	}
	if more > 0 {
		lines = append(lines, fmt.Sprintf("Not shown: %d more; settle these first.", more))
	}
	if lines == nil {
		lines = []string{"There are no conflicts."}
	}
	return &answer{text: []string{strings.Join(lines, "\n")}}, nil
}

func (f *face) showConflict(ctx context.Context, store string, id int) (*answer, error) {
	kept, err := f.Conflict(ctx, store, id)
	if err != nil {
		return nil, err
	}
	type side struct {
		name string
		data []byte
	}
	sides := []side{{"base", kept.Texts.Base}, {"theirs", kept.Texts.Theirs}, {"yours", kept.Texts.Yours}}
	blocks := []string{f.describe(&kept.About)}
	if kept.Now == nil {
		blocks[0] += "\nNothing is there now; to make it again, give if_version none."
	} else {
		now := fmt.Sprintf("now there, version %d (%s)", kept.Now.Seq, kept.Now.Version)
		if won := kept.About.Theirs; won != nil && won.Version == kept.Now.Version {
			sides[1].name += ", " + now
		} else {
			sides = append(sides, side{now, kept.NowText})
		}
	}
	for _, side := range sides {
		text, cut := shownText(side.data)
		end := ""
		if cut {
			end = " (its beginning)"
		}
		blocks = append(blocks, side.name+end+":\n"+text)
	}
	return &answer{text: blocks}, nil
}

// shownText returns the beginning of a text, and whether there is more.
func shownText(data []byte) (text string, cut bool) {
	if cut = len(data) > maxConflictText; cut {
		data = data[:maxConflictText]
		for len(data) > 0 && !utf8.RuneStart(data[len(data)-1]) {
			data = data[:len(data)-1]
		}
		data = data[:max(0, len(data)-1)]
	}
	return strings.ToValidUTF8(string(data), "\uFFFD"), cut
}

// takes are what the argument take means.
var takes = map[string]session.Take{"yours": session.Yours, "theirs": session.Theirs, "merge": session.Merged, "text": session.Given}

// resolved is the answer of a conflict that is settled.
func resolved(id int, made tools.Made) *answer {
	if made == (tools.Made{}) {
		return settled(id, "Conflict %d is settled; there was nothing to write.")
	}
	return &answer{
		text: []string{fmt.Sprintf("Conflict %d is settled: %s has version %s (%d).", id, quote.Text(made.Path), made.Version, made.Seq)},
		fields: struct {
			madeFields
			Settled int `json:"settled"`
		}{madeFields{made.Path, made.Version, made.Seq}, id},
	}
}

// settled is the answer of a conflict that is settled without a change; format is for its id.
func settled(id int, format string) *answer {
	return &answer{text: []string{fmt.Sprintf(format, id)}, fields: struct {
		Settled int `json:"settled"`
	}{id}}
}
