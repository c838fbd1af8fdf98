package harness

import (
	"os"
	"path/filepath"
	"testing"
)

// Inside runs a bash script as root in namespaces of its own for mounts and processes, which end
// with it. /dev/fuse is open to all users there, as it is on most machines; on this one it may
// not be. In the script `user SCRIPT` runs another as a user without rights (uid 65534), $at is
// where to mount, and mounts prints what is mounted.
func (e *Env) Inside(t *testing.T, path, script string) Result {
	t.Helper()
	const prelude = `
		mount -t tmpfs none "$dev"
		mknod -m 666 "$dev/fuse" c 10 229
		mount --bind "$dev/fuse" /dev/fuse
		user() {
			setpriv --reuid=65534 --regid=65534 --clear-groups env PATH="$user_path" bash -euo pipefail -c 'cd "$HOME"; '"$1"
		}
		mounts() { grep -c " $at " /proc/self/mountinfo || true; }
`
	return e.Run(t, ScriptPatience, "", func() {}, "env", "at="+filepath.Join(e.Dir, "user", "mnt"), "dev="+filepath.Join(e.Dir, "dev"),
		"user_path="+path, "unshare", "--mount", "--pid", "--fork", "--mount-proc", "--propagation=private", "--kill-child",
		"bash", "-euo", "pipefail", "-c", prelude+script)
}

// NewUser is a place of its own for that user.
func NewUser(t *testing.T) *Env {
	t.Helper()
	NeedTools(t, "setpriv", "unshare")
	e := NewEnv(t)
	user := filepath.Join(e.Dir, "user")
	e.Home, e.Stores = filepath.Join(user, "home"), filepath.Join(user, "stores")
	for _, dir := range []string{user, e.Home, filepath.Join(e.Dir, "dev")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(dir, nobody, nobody); err != nil {
			t.Fatal(err)
		}
	}
	return e
}

// nobody is a user without any rights of its own.
const nobody = 65534
