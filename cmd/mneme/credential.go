package main

import (
	"context"

	"mneme/backend"
	"mneme/internal/quote"
)

// ownSession returns the session in whose name the stores of a library are written: that of the
// credential, where a server says that it has one, else the one that --session gives, or a new one.
func ownSession(lib *backend.Library, given string) (string, error) {
	of := lib.Credential().Session
	switch {
	case of == "":
		return sessionName(given)
	case given == "" || given == of:
		return of, nil
	}
	return "", usagef("--session %s: the credential is a token of session %s, by whose name the server records everything; leave out --session, or use a token of session %[1]s", quote.Text(given), of)
}

// obeyCredential makes those stores read-only that the credential may only read.
func obeyCredential(ctx context.Context, lib *backend.Library, wanted []wantedStore) error {
	c := lib.Credential()
	if c.Key == "" {
		return nil
	}
	for i := range wanted {
		if wanted[i].readOnly {
			continue
		}
		info, err := lib.FindStore(ctx, wanted[i].ref)
		if err != nil {
			return err
		}
		wanted[i].readOnly = !c.MayWrite(info.ID, "")
	}
	return nil
}

// mayWrite returns what tells whether the credential that there is by now may write to a store in a
// session; nil: there is none that could change.
func mayWrite(lib *backend.Library, session string) func(storeID string) bool {
	if lib.Credential().Key == "" {
		return nil
	}
	return func(storeID string) bool {
		c := lib.Credential()
		return c.MayWrite(storeID, session)
	}
}
