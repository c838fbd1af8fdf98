package sessions

import (
	"context"

	"mneme/backend"
	"mneme/cmd/mneme/app"
	"mneme/internal/quote"
)

// OwnSession returns the session that writes to the stores of a library: the session of the
// credential, if a server names one, else the given one, or a new one.
func OwnSession(lib *backend.Library, given string) (string, error) {
	of := lib.Credential().Session
	switch {
	case of == "":
		return SessionName(given)
	case given == "" || given == of:
		return of, nil
	}
	return "", app.Usagef("--session %s: the credential is a token of session %s, by whose name the server records everything; leave out --session, or use a token of session %[1]s", quote.Text(given), of)
}

// ObeyCredential makes stores read-only that the credential may only read.
func ObeyCredential(ctx context.Context, lib *backend.Library, wanted []WantedStore) error {
	c := lib.Credential()
	if c.Key == "" {
		return nil
	}
	for i := range wanted {
		if wanted[i].ReadOnly {
			continue
		}
		info, err := lib.FindStore(ctx, wanted[i].Ref)
		if err != nil {
			return err
		}
		wanted[i].ReadOnly = !c.MayWrite(info.ID, "")
	}
	return nil
}

// MayWrite returns a function that reports whether the current credential may write to a
// store in a session; nil: the credential cannot change.
func MayWrite(lib *backend.Library, session string) func(storeID string) bool {
	if lib.Credential().Key == "" {
		return nil
	}
	return func(storeID string) bool {
		c := lib.Credential()
		return c.MayWrite(storeID, session)
	}
}
