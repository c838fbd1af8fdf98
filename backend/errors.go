package backend

import (
	"mneme/internal/awsconf"
	"mneme/internal/awssetup"
	"mneme/versionlog"
	"mneme/versionlog/dynamolog"
)

// ErrNoStores says that nothing was ever stored where a URL points. It is a
// versionlog.ErrNotFound, under errors.Is.
var ErrNoStores error = noStores{}

// noStores is a versionlog.ErrNotFound that does not say so, too.
type noStores struct{}

func (noStores) Error() string { return "no memory stores there yet" }
func (noStores) Unwrap() error { return versionlog.ErrNotFound }

// Errors of backends that something can be done about, for errors.Is.
var (
	// ErrPlainHTTP says that an endpoint of another machine would be spoken to in plain
	// HTTP, which $MNEME_INSECURE does not allow.
	ErrPlainHTTP = awsconf.ErrPlainHTTP
	// ErrNotAllowed says that the credentials are good, and their permissions are not
	// enough. Setup.Plan says which are.
	ErrNotAllowed = awsconf.ErrNotAllowed
	// ErrMissing says that what Setup.Run makes is missing.
	ErrMissing = awsconf.ErrMissing
	// ErrNotSetUp says that there is something at the location, which Setup.Run has not
	// prepared.
	ErrNotSetUp = dynamolog.ErrNotSetUp
	// ErrOlder says that Setup.Run has to bring up to date what an older mneme has made,
	// when all that uses it has ended.
	ErrOlder = dynamolog.ErrOlder
	// ErrOtherPlace says that the index belongs to another place than the URL says.
	// SetupOptions.Move makes it this one's.
	ErrOtherPlace = dynamolog.ErrOtherBucket
	// ErrOtherOwner says that what Setup.Run found is of another account than
	// SetupOptions.Owner.
	ErrOtherOwner = awssetup.ErrForeignBucket
	// ErrIndex is the versionlog.ErrRewritten of an index that does not agree with the
	// records. Recovery.Rebuild brings it up to them, or tells why it cannot, once
	// nothing writes to the store.
	ErrIndex = dynamolog.ErrIndex
	// ErrRebuilding says that a store cannot be found while its index is being rebuilt,
	// or since that was interrupted: then Recovery.Rebuild has to be run again.
	ErrRebuilding = dynamolog.ErrRebuilding
	// ErrLeft says that a store is deleted, and not all of it is gone. Deleting it again,
	// by its id, removes the rest.
	ErrLeft = dynamolog.ErrLeft
)
