package mount

import (
	"fmt"
	"strconv"
)

// permissions are those of a directory, as chmod(1) has them in octal.
type permissions uint32

// UnmarshalText reads them. Its owner needs all.
func (p *permissions) UnmarshalText(text []byte) error {
	const owner = 0o700
	n, err := strconv.ParseUint(string(text), 8, 32)
	if err != nil || n > 0o777 || n&owner != owner {
		return fmt.Errorf("%q: want octal permissions that give the owner all of them, such as 700, 750 or 755", text)
	}
	*p = permissions(n)
	return nil
}
