package app

import (
	"errors"
	"fmt"

	"mneme/adopt"
	"mneme/backend"
	"mneme/cas"
	"mneme/cmd/mneme/term"
	"mneme/daemon"
	"mneme/finding"
	"mneme/internal/safepath"
	"mneme/memory"
	"mneme/server/access"
	"mneme/verify"
	"mneme/versionlog"
	"mneme/witness"
)

// advices are what a person can do about errors. The first one that matches is used.
var advices = []struct {
	err error
	do  string
}{
	{backend.ErrNoStores, "`mneme store create NAME` makes the first"},
	{memory.ErrNoStore, "`mneme store list` shows the stores, `mneme store create` makes one"},

	{daemon.ErrNoMount, "`mneme status` lists the mounts"},

	{backend.ErrPlainHTTP, "--insecure does so, too"},
	{backend.ErrPeer, "no credential was sent; if the server runs as that user, MNEME_SERVER_USER names it, else ask who has taken the place of the server"},
	{backend.ErrCredential, "MNEME_TOKEN, or the file of --token-file, is to have a key or a token of that server; who operates it makes one with `mneme key create`"},
	{access.ErrReachesNothing, "give --grant STORE, --all RIGHT or --admin"},
	{backend.ErrServerCollects, "run `mneme gc` there, with the --url of its stores"},
	{backend.ErrNotAllowed, "`mneme setup --print` shows the policies they need"},
	{backend.ErrMissing, "`mneme setup` makes what is missing"},
	{backend.ErrNotSetUp, "make it one with `mneme setup`; if it was lost, `mneme fsck --rebuild-index` then makes its rows anew from the bucket"},
	{backend.ErrOlder, "end the mounts of that, and bring it up to date with `mneme setup`"},
	{backend.ErrOtherPlace, "if the objects were copied to the bucket of the URL on purpose: `mneme setup --move`"},
	{backend.ErrOtherOwner, "correct the URL, or, if you mean it, say whose it is: `mneme setup --bucket-owner ACCOUNT`"},

	{safepath.ErrUntrusted, "run mneme as that user, or use a directory that is root's alone, as all above it are"},

	{backend.ErrIndex, "end all that writes to the store and run `mneme fsck --rebuild-index`, which brings the table up to the bucket, or tells why it cannot"},
	{versionlog.ErrRewritten, "`mneme fsck` says more, docs/BACKUP.md what to do"},
	{versionlog.ErrCorrupt, "look with `mneme fsck`"},
	{cas.ErrCorrupt, "look with `mneme fsck`"},
}

// advice says what a person can do about an error; "": nothing to add. Packages below the
// command line describe errors and know no commands.
func advice(err error) string {
	var missing *witness.MissingError
	var version *memory.VersionRefError
	var mounted *daemon.MountedError
	var dead *daemon.DeadError
	var apart *adopt.ApartError
	switch {
	case errors.As(err, &mounted):
		return fmt.Sprintf("`mneme unmount --at %s` ends that, --at chooses another place", mounted.Dir)
	case errors.As(err, &advised{}):
		return ""
	case errors.As(err, &dead):
		return fmt.Sprintf("`mneme unmount --at %s` clears it", dead.Dir)
	case errors.As(err, &apart):
		return fmt.Sprintf("bring that back first: `mneme use %s --undo`", term.ShellWord(apart.Used))
	case errors.As(err, &missing):
		return fmt.Sprintf("it can be read by commands, and is neither written nor mounted; "+
			"after going back to a backup, `mneme fsck %s --accept-loss` takes it as it is; docs/BACKUP.md says more", missing.Store)
	case errors.As(err, &version):
		return fmt.Sprintf("`mneme log %s` prints both", term.ShellWord(version.Store+":"+version.Path))
	}
	for _, a := range advices {
		if errors.Is(err, a.err) {
			return a.do
		}
	}
	if do := advisePolicy(err); do != "" {
		return do
	}
	return adviseStoreQuota(err)
}

// WithAdvice is the text of an error with its advice.
func WithAdvice(err error) string {
	if do := advice(err); do != "" {
		return err.Error() + "; " + do
	}
	return err.Error()
}

// AdviseMount says what can be done about an error of a mount. An agent may have to ask a
// person to do it.
func AdviseMount(err error) string {
	if do := adviseQuota(err); do != "" {
		return do
	}
	return advice(err)
}

// Advised returns an error to which no advice is added.
func Advised(err error) error { return advised{err} }

type advised struct{ error }

func (a advised) Unwrap() error { return a.error }

// AdviseDeletion adds advice to an error about a store that was not deleted, or not as a
// whole.
func AdviseDeletion(err error, storeID string) error {
	switch {
	case errors.Is(err, backend.ErrLeft):
		return fmt.Errorf("%w; `mneme store delete %s --yes` removes them", err, storeID)
	case errors.Is(err, backend.ErrRebuilding):
		return fmt.Errorf("%w; run `mneme fsck %s --rebuild-index` first", err, storeID)
	}
	return err
}

// AdviseProblem says what can be done about a problem of a store, with the commands for it.
func AdviseProblem(at *backend.Location, store string, p verify.Problem) string {
	switch {
	case p.Finding == finding.BucketErased:
		return fmt.Sprintf("%s: `mneme redact %s VERSION… --reason WHY`", p.Do, store)
	case p.Kind == backend.ProblemIndex && at.Recovery.Rebuild != nil:
		return p.Do + ": `mneme fsck --rebuild-index`"
	case p.Kind == verify.ProblemBlob && p.Current:
		return fmt.Sprintf("write it again from a copy (`mneme write %s`), or bring an earlier version back (`mneme log %[1]s`, `mneme restore %[1]s VERSION`)",
			term.ShellWord(store+":"+p.Version.Path))
	case p.Kind == verify.ProblemBlob:
		return fmt.Sprintf("%s (`mneme write %s`)", p.Do, term.ShellWord(store+":/restored"))
	}
	return p.Do
}
