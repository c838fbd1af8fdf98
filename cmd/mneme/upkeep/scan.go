package upkeep

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"mneme/cmd/mneme/app"
	"mneme/cmd/mneme/term"
	"mneme/cmd/mneme/view"
	"mneme/errkind"
	"mneme/history"
	"mneme/internal/plural"
	"mneme/internal/quote"
	"mneme/memory"
	"mneme/secrets"
)

// ScanCmd is the command `mneme scan`.
type ScanCmd struct {
	Place string `arg:"" help:"STORE, or STORE:/path of a memory or directory."`
}

func (c *ScanCmd) Help() string {
	return `Looks for credentials in every version of a store, old and deleted ones too: keys and tokens by the shapes that services document, private keys, signed tokens. Each content is read once. The paths, messages and descriptions of the history are looked at, too. It prints where each one is, by rule and line and never the credential itself, and the versions that have it, with the command that erases them from the history; a memory that has one now is to be written anew first. Redaction reaches contents and paths, but neither messages nor descriptions; a store without them is a new one. What has leaked is to be replaced where it was issued. Ends with exit code 1 if there are any, and with 7 if there are none in what it could read, and contents are lost.

Examples:

    mneme scan notes
    mneme scan notes:/projects/ --json`
}

// errLeaks says that a scan has found something, and has printed it.
var errLeaks = errors.New("there are credentials in the history")

// errUnscanned says that a scan has found nothing, but could not read everything.
var errUnscanned = errkind.New(errkind.Corrupt, "there are no credentials in what could be read, which is not all; mend what is lost from a backup and scan again")

func (c *ScanCmd) Run(ctx context.Context, a *app.App) error {
	p, err := app.ParseDir(c.Place)
	if err != nil {
		return err
	}
	return a.WithPlace(ctx, p, app.Reading, func(st *memory.Store) error {
		bar := a.Progress("scan " + p.String())
		found, err := history.Scan(ctx, st, p.Path, func(done, total int) { bar.Show("commits", done, total) })
		bar.Clear()
		if err != nil {
			return err
		}
		leaks, mentions := found.Leaks, found.Mentions
		for i := range leaks {
			if a.JSON {
				err = a.PrintJSON(newLeakJSON(&leaks[i]))
			} else {
				err = printLeak(a, st.Info().Slug, &leaks[i])
			}
			if err != nil {
				return err
			}
		}
		for i := range mentions {
			if a.JSON {
				err = a.PrintJSON(newMentionJSON(&mentions[i]))
			} else {
				err = printMention(a, st.Info().Slug, &mentions[i])
			}
			if err != nil {
				return err
			}
		}
		if err := view.WarnUnread(a, found.Unread); err != nil {
			return err
		}
		if len(leaks)+len(mentions) > 0 {
			return errLeaks
		}
		if found.Unread.Lost > 0 {
			return errUnscanned
		}
		if !a.JSON {
			a.Printf("No credentials in the history of %s.\n", p)
		}
		return nil
	})
}

// printLeak prints the places of credentials in a content, and how to erase its versions.
func printLeak(a *app.App, slug string, l *history.Leak) error {
	first := &l.Versions[0]
	for _, f := range l.Found {
		a.Printf("%s:%s:%d: %s (%s)\n", slug, maskedPath(first.Path), f.Line, f.Rule, f.Masked)
	}
	since := "since"
	if !l.Live {
		since = "not in the newest version, but since"
	}
	a.Printf("    %s, %s %s by %s\n", plural.Of(len(l.Versions), "version"), since, term.LocalTime(first.Time), quote.Text(first.Actor.String()))
	ids := make([]string, len(l.Versions))
	for i := range l.Versions {
		ids[i] = l.Versions[i].ID
	}
	command := fmt.Sprintf("mneme redact %s %s --reason WHY", slug, strings.Join(ids, " "))
	if l.Live {
		a.Printf("    Write %s:%s anew without it, then: %s\n", slug, maskedPath(l.Versions[len(l.Versions)-1].Path), command)
	} else {
		a.Printf("    To erase it: %s\n", command)
	}
	return a.OutError()
}

// leakJSON is a content with credentials, for programs.
type leakJSON struct {
	Type     string            `json:"type"`
	Found    []secrets.Finding `json:"found"`
	Live     bool              `json:"live"`
	Versions []leakVersionJSON `json:"versions"`
}

type leakVersionJSON struct {
	ID   string `json:"id"`
	Path string `json:"path"`
	Seq  uint64 `json:"seq"`
}

func newLeakJSON(l *history.Leak) leakJSON {
	j := leakJSON{Type: "leak", Found: l.Found, Live: l.Live}
	for i := range l.Versions {
		v := &l.Versions[i]
		j.Versions = append(j.Versions, leakVersionJSON{v.ID, withoutSecrets(v.Path), v.Seq})
	}
	return j
}
