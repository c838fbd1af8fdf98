package serving

import (
	"context"
	"fmt"
	"strings"
	"time"

	"mneme/backend"
	"mneme/cmd/mneme/app"
	"mneme/cmd/mneme/term"
	"mneme/server/access"
	"mneme/server/manage"
)

// TokenCmd is the command `mneme token`.
type TokenCmd struct {
	Key      string        `arg:"" optional:"" help:"The key with which it is made, by its id or its label. Left out with the URL of a server, which takes the key of whoever asks."`
	Store    []string      `required:"" placeholder:"STORE[:ro]" help:"A store that the session has, to read and write or, with :ro, to read. May be given several times."`
	Session  string        `placeholder:"ID" help:"The session's id, which every version that it makes tells. Default: a new one."`
	Expires  term.Period   `placeholder:"TIME" help:"For how long the token counts, at most 1h, which is the default."`
	MaxCalls term.Bound    `placeholder:"N" help:"How many requests a server answers; 0 is any number, the default."`
	MaxBytes term.ByteSize `placeholder:"SIZE" help:"How many bytes a server takes and sends, such as 50MB; 0 is any number, the default."`
}

func (c *TokenCmd) Help() string {
	return `Makes the token of one session, for a sandbox that is to have no key: it reaches only the stores named, counts for an hour at most, and never has more rights than the key. A program sends it as it would a key. What it writes is in the name of its session and of the key. With --json the answer is that of POST /v1/mneme/sessions: stores with their mount paths, and the note for the system prompt.

With the URL of a server it takes no stores at hand: the server makes the token with the key in $MNEME_TOKEN.

Examples:

    mneme token laptop --store notes
    mneme token --url https://memory.example --store notes
    mneme token laptop --store notes:ro --session agent-7 --expires 15m --max-calls 500 --json`
}

func (c *TokenCmd) Run(ctx context.Context, a *app.App) error {
	var wanted []manage.Wanted
	for _, text := range c.Store {
		w := manage.Wanted{Store: text, Access: manage.ReadWrite}
		if store, isReadOnly := strings.CutSuffix(text, ":ro"); isReadOnly {
			w.Store, w.Access = store, manage.ReadOnly
		}
		wanted = append(wanted, w)
	}
	session := access.Session{ID: c.Session, MaxCalls: int(c.MaxCalls), MaxBytes: int64(c.MaxBytes)}
	if c.Expires > 0 {
		if time.Duration(c.Expires) > access.MaxTokenAge {
			return app.Usagef("--expires %v: a token counts for 1h at most", time.Duration(c.Expires))
		}
		session.Expires = time.Now().Add(time.Duration(c.Expires))
	}
	var ref *keyRef
	if c.Key != "" {
		ref = &keyRef{c.Key}
	}
	return withKeys(ctx, a, func(_ *backend.Library, keys keyring) error {
		made, err := keys.session(ctx, ref, session, wanted)
		if err != nil {
			return err
		}
		if a.JSON {
			return a.PrintJSON(made)
		}
		a.Printf("%s\n", made.Token)
		_, _ = fmt.Fprintf(a.Err, "mneme: this is the token of session %s until %s; it is not shown again\n", made.ID, term.LocalTime(made.ExpiresAt))
		return nil
	})
}
