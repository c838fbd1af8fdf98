package daemon

import (
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strings"
)

// helperName is the name by which mount(8) calls this program for file systems of type
// mneme, in /etc/fstab and with `mount -t mneme`.
const helperName = "mount.mneme"

// kernelOptions are options of mount(8) that have no effect on a mount of mneme.
var kernelOptions = []string{
	"defaults", "rw", "auto", "noauto", "user", "nouser", "users", "owner", "group", "nofail", "_netdev", "noexec",
	"suid", "nosuid", "dev", "nodev", "async", "sync", "atime", "noatime", "relatime", "norelatime", "diratime", "nodiratime",
}

// helperArgs translates the arguments that mount(8) gives a helper to arguments of
// `mneme mount`. They are SPEC DIR [-sfnv] [-N NAMESPACE] [-t TYPE] [-o OPTIONS]. SPEC is
// stores with commas between them. Options are flags of `mneme mount` without their
// dashes, and options of mount(8). If fake is set, the helper must not mount.
func helperArgs(args []string) (mount []string, fake bool, err error) {
	var places []string
	var options string
	for i := 0; i < len(args); i++ {
		switch arg := args[i]; {
		case arg == "-o" || arg == "-t" || arg == "-N":
			if i++; i == len(args) {
				return nil, false, invalidf("%s: %s needs a value", helperName, arg)
			}
			if arg == "-o" {
				options = args[i]
			}
		case strings.HasPrefix(arg, "-") && strings.Trim(arg[1:], "sfnv") == "":
			fake = fake || strings.Contains(arg, "f")
		case strings.HasPrefix(arg, "-"):
			return nil, false, invalidf("%s: unknown argument %q", helperName, arg)
		default:
			places = append(places, arg)
		}
	}
	if len(places) != 2 {
		return nil, false, invalidf("%s: want STORE[:ro][,STORE…] and a directory, as in /etc/fstab: notes /mnt/memory mneme session=host-1", helperName)
	}
	mount = append([]string{"mount", "--background", "--at", places[1]}, strings.Split(places[0], ",")...)
	for option := range strings.SplitSeq(options, ",") {
		name, value, hasValue := strings.Cut(option, "=")
		switch {
		case option == "" || strings.HasPrefix(name, "x-") || name == "comment":
		case name == "ro":
			mount = append(mount, "--read-only")
		case hasValue:
			mount = append(mount, fmt.Sprintf("--%s=%s", name, value))
		case !slices.Contains(kernelOptions, name):
			mount = append(mount, "--"+name)
		}
	}
	return mount, fake, nil
}

// IsMountHelper reports whether this process is the helper of mount(8), and not the
// daemon that the helper has started.
func IsMountHelper() bool {
	return filepath.Base(os.Args[0]) == helperName && os.Getenv(parentPipeVariable) == ""
}

// MountHelperArgs translates the arguments of the helper to arguments of mneme. It
// returns none if the helper must do nothing. It sets $HOME, below which the log of the
// daemon is, if a booting machine has not set it.
func MountHelperArgs(args []string) ([]string, error) {
	mount, fake, err := helperArgs(args)
	if err != nil || fake {
		return nil, err
	}
	if u, err := user.Current(); err == nil && os.Getenv("HOME") == "" {
		return mount, os.Setenv("HOME", u.HomeDir)
	}
	return mount, nil
}
