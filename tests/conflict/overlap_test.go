package conflict

import (
	"strings"
	"testing"

	"mneme/tests/harness"
)

// TestTwoSessionsAtOneFile holds what happens where two sessions get in each
// other's way at one file. In the scripts the current directory is the first
// session's, `other` holds the path of the second one's.
func TestTwoSessionsAtOneFile(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, code, want string }{
		{"refused content does not replace", `
write("x", b"old"); fd = os.open("x.tmp", os.O_CREAT | os.O_WRONLY); attempt(os.write, fd, b"z" * 110000); attempt(os.rename, "x.tmp", "x")
print(open("x").read())`, "EFBIG\nEFBIG\nold\n"},
		{"deleted there, open here, made again there", `
write("p", b"old"); sees(there("p"), b"old"); f = open("p", "r+b", buffering=0); f.write(b"new"); os.remove(there("p"))
gone("p"); attempt(os.rename, "p", "p~"); write(there("p"), b"again"); sees("p", b"again"); attempt(f.close); sees("p", b"again")`, "ENOENT\nEBUSY\n"},
		{"deleted there, removed here", `
write("p", b"old"); sees(there("p"), b"old"); f = open("p", "r+b", buffering=0); f.write(b"new"); os.remove(there("p"))
gone("p"); attempt(os.remove, "p"); print(os.listdir("."))`, "ENOENT\n[]\n"},
		{"deleted there, made again there, opened again here", `
write("p", b"old"); sees(there("p"), b"old"); f = open("p", "r+b", buffering=0); f.write(b"new"); os.remove(there("p"))
gone("p"); attempt(os.fsync, f.fileno()); write(there("p"), b"again"); appears("p")
g = os.open("p", os.O_RDWR); attempt(os.write, g, b"AG"); attempt(os.close, g); sees(there("p"), b"again")`, "EBUSY\nEBUSY\nEBUSY\n"},
		{"a temporary file gives way", `
write("c.tmp", b"here"); subprocess.run(["mneme", "write", "notes:/c.tmp"], input=b"there", check=True, stdout=subprocess.DEVNULL)
sees("c.tmp", b"there"); time.sleep(2.5); sees("c.tmp", b"there"); sees(there("c.tmp"), b"there")
print("c.tmp" in open(".mneme/errors").read())`, "True\n"},
		{"content written under a scratch name", `
write("h", b"one"); os.rename("h", "h~"); write("h~", b"two"); os.rename("h~", "h2"); sees(there("h2"), b"two")`, ""},
		{"two scratch files", `
write("a", b"a"); write("b", b"b"); os.rename("a", "a~"); os.rename("b", "b~"); os.rename("a~", "b~"); os.remove("b~")
gone(there("a")); gone(there("b"))`, ""},
		{"an idle writer spoils nothing", `
write("f", b"one"); idle = open("f", "r+b", buffering=0); sees(there("f"), b"one"); write(there("f"), b"two"); sees("f", b"two")
write("f", b"two\nthree"); sees(there("f"), b"two\nthree"); attempt(idle.write, b"X"); attempt(os.fsync, idle.fileno()); print(open("f").read())`, "EBUSY\nEBUSY\ntwo\nthree\n"},
		{"overtaken between open and close", `
write("f", b"one"); f = open("f", "wb", buffering=0); f.write(b"mine"); sees(there("f"), b"one"); write(there("f"), b"theirs")
attempt(f.close); sees("f", b"theirs"); sees(there("f"), b"theirs")`, "EBUSY\n"},
		{"an inode of another file system", `
import resource
held = [open("/dev/shm/mneme-%d-%d" % (os.getpid(), i), "w") for i in range(200)]
for h in held: os.unlink(h.name)
write("g", b"one"); sees(there("g"), b"one")
fd = os.open("g", os.O_WRONLY | os.O_TRUNC); write(there("g"), b"theirs"); attempt(os.close, fd)`, "EBUSY\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			e := harness.NewEnv(t)
			if e.Remote != nil && strings.Contains(tc.code, "time.sleep(.1)") {
				return // it is about changes that arrive at once
			}
			m, other := e.Mount(t, "notes"), e.Mount(t, "notes")
			code := `
import subprocess, time, os
there = lambda name: os.path.join("` + other.Dir + `", name)
def sees(name, want):
    for _ in range(300):
        try: have = open(name, "rb").read()
        except OSError as err: have = err
        if have == want:
            open(name, "rb").close()  # the one before may have been opened when the old version was there
            return
        time.sleep(.01)
    print(name, have, "instead of", want)
def appears(name):
    for _ in range(300):
        if os.path.exists(name): return
        time.sleep(.01)
    print(name, "is not there")
def gone(name):
    for _ in range(300):
        if not os.path.exists(name): return
        time.sleep(.01)
    print(name, "is still there")
` + tc.code
			if got := m.Sh(t, harness.PyErr(code)); got != tc.want {
				t.Errorf("printed\n%swant\n%s", got, tc.want)
			}
			for _, mount := range []*harness.Mount{m, other} {
				if text := mount.Stderr.String(); strings.Contains(text, "panic") {
					t.Errorf("the daemon said:\n%s", text)
				}
			}
		})
	}
}
