package mount

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"strconv"
	"strings"
)

// owner is a user and a group. The zero value is the caller.
type owner struct {
	set      bool
	uid, gid uint32
}

// UnmarshalText reads USER:GROUP, or USER, whose own group it is then.
func (o *owner) UnmarshalText(text []byte) error {
	name, group, hasGroup := strings.Cut(string(text), ":")
	uid, own, err := userID(name)
	gid := own
	if err == nil && hasGroup {
		gid, err = groupID(group)
	}
	if err != nil {
		return fmt.Errorf("%q: %w; want USER:GROUP or USER, such as 1000:1000 or agent", text, err)
	}
	*o = owner{true, uid, gid}
	return nil
}

// userID finds a user and its own group, by name or number.
func userID(name string) (uid, gid uint32, err error) {
	u, err := user.Lookup(name)
	if err != nil {
		if u, err = user.LookupId(name); err != nil {
			id, parseErr := strconv.ParseUint(name, 10, 32)
			if parseErr != nil {
				return 0, 0, fmt.Errorf("there is no user %q", name)
			}
			return uint32(id), uint32(id), nil // of a container, perhaps
		}
	}
	id, errUser := strconv.ParseUint(u.Uid, 10, 32)
	own, errGroup := strconv.ParseUint(u.Gid, 10, 32)
	return uint32(id), uint32(own), errors.Join(errUser, errGroup)
}

// groupID finds a group by name or number.
func groupID(name string) (uint32, error) {
	if g, err := user.LookupGroup(name); err == nil {
		name = g.Gid
	}
	id, err := strconv.ParseUint(name, 10, 32)
	if err != nil {
		return 0, fmt.Errorf("there is no group %q", name)
	}
	return uint32(id), nil
}

func (o owner) ids() (uid, gid uint32) {
	if o.set {
		return o.uid, o.gid
	}
	return uint32(os.Getuid()), uint32(os.Getgid())
}
