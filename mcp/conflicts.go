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

// The bounds of what the tool conflicts shows.
const (
	maxConflicts    = 200
	maxConflictText = 100_000 // bytes of each of the three texts
)

type conflictFields struct {
	ID      int    `json:"id"`
	Path    string `json:"path"`
	Session string `json:"session"`
	Time    string `json:"time"`
	Why     string `json:"why"`
	Size    int64  `json:"size"`
	Base    string `json:"base,omitempty"`   // id of the version; none: there was no file
	Theirs  string `json:"theirs,omitempty"` // likewise
	Now     string `json:"now,omitempty"`    // id of the version that is there, of show
}

func (f *face) conflictOf(a *conflict.About) conflictFields {
	fields := conflictFields{ID: a.ID, Path: f.pathOf(a.Store, a.Path), Session: a.Session, Time: stamp(a.Time), Why: a.Why, Size: a.Size}
	if a.Base != nil {
		fields.Base = a.Base.Version
	}
	if a.Theirs != nil {
		fields.Theirs = a.Theirs.Version
	}
	return fields
}

func (c *conflictFields) String() string {
	return fmt.Sprintf("%d %s, %s, of session %s, %s: %s", c.ID, quote.Text(c.Path), plural.Of(c.Size, "byte"), quote.Name(c.Session), c.Time, quote.Line(c.Why))
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
	fields := struct {
		Conflicts []conflictFields `json:"conflicts"`
		More      int              `json:"more,omitempty"`
	}{Conflicts: []conflictFields{}, More: max(0, len(list)-maxConflicts)}
	var lines []string
	for i := range list[:len(list)-fields.More] {
		one := f.conflictOf(&list[i])
		fields.Conflicts, lines = append(fields.Conflicts, one), append(lines, one.String())
	}
	if fields.More > 0 {
		lines = append(lines, fmt.Sprintf("Not shown: %d more; settle these first.", fields.More))
	}
	if lines == nil {
		lines = []string{"There are no conflicts."}
	}
	return &answer{text: []string{strings.Join(lines, "\n")}, fields: fields}, nil
}

type conflictTexts struct {
	Base   string `json:"base"`
	Theirs string `json:"theirs"`
	Yours  string `json:"yours"`
	Now    string `json:"now,omitempty"` // what is there now, if that is not theirs
	Cut    bool   `json:"cut,omitempty"` // one of them is longer
}

func (f *face) showConflict(ctx context.Context, store string, id int) (*answer, error) {
	kept, err := f.Conflict(ctx, store, id)
	if err != nil {
		return nil, err
	}
	one := f.conflictOf(&kept.About)
	now, moved := "", kept.Now != nil && one.Theirs != kept.Now.Version
	if kept.Now != nil {
		one.Now = kept.Now.Version
		now = fmt.Sprintf("now there, version %d (%s)", kept.Now.Seq, one.Now)
	}
	texts := conflictTexts{}
	blocks := []string{one.String()}
	type side struct {
		name string
		data []byte
		to   *string
	}
	sides := []side{{"base", kept.Texts.Base, &texts.Base}, {"theirs", kept.Texts.Theirs, &texts.Theirs}, {"yours", kept.Texts.Yours, &texts.Yours}}
	switch {
	case moved:
		sides = append(sides, side{now, kept.NowText, &texts.Now})
	case kept.Now != nil:
		sides[1].name = "theirs, " + now
	default:
		blocks[0] += "\nNothing is there now; to make it again, give if_version none."
	}
	for _, side := range sides {
		text, cut := shownText(side.data)
		*side.to, texts.Cut = text, texts.Cut || cut
		end := ""
		if cut {
			end = " (its beginning)"
		}
		blocks = append(blocks, side.name+end+":\n"+text)
	}
	return &answer{text: blocks, fields: struct {
		Conflicts []conflictFields `json:"conflicts"`
		Texts     conflictTexts    `json:"texts"`
	}{[]conflictFields{one}, texts}}, nil
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
