package mount

import (
	"fmt"
	"strconv"
)

// permissions are the permissions of a directory, in octal as for chmod(1).
type permissions uint32

// UnmarshalText reads permissions. The owner must have all of them.
func (p *permissions) UnmarshalText(text []byte) error {
	const owner = 0o700
	n, err := strconv.ParseUint(string(text), 8, 32)
	if err != nil || n > 0o777 || n&owner != owner {
		return fmt.Errorf("%q: want octal permissions that give the owner all of them, such as 700, 750 or 755", text)
	}
	*p = permissions(n)
	return nil
}
