package conflict

import (
	"fmt"
	"strings"
	"testing"

	"mneme/tests/harness"
)

// baseCase is what one session does with a file after another has changed it.
// theirs, removed and moved are the other session's doing; what is kept as a
// conflict, `kept` prints.
type baseCase struct{ name, code, want string }

const basePrelude = `
import json, mmap, subprocess, time
def mneme(*args, data=b""):
    return subprocess.run(["mneme", *args], input=data, check=True, stdout=subprocess.PIPE).stdout
place = lambda name: "notes:/" + D + "/" + name
there = lambda name: OTHER + "/" + D + "/" + name
def insist(f):  # until the other mount has heard of the file
    for i in range(500):
        try: return f()
        except OSError as err: last = err; time.sleep(.01)
    print("the other session:", last)
# Not by starting programs, which would close their copies of open files.
def theirs(name, data):
    def write():
        os.makedirs(os.path.dirname(there(name)), exist_ok=True)
        try: read(there(name))
        except FileNotFoundError: pass
        put(there(name), data)
    insist(write)
def removed(name): insist(lambda: (read(there(name)), os.unlink(there(name))))
def removedDir(name): insist(lambda: os.rmdir(there(name)))
def missed(name):  # until the mount knows that it is gone
    for i in range(500):
        if not os.path.lexists(name): return
        time.sleep(.01)
    raise TimeoutError(name)
def moved(name, to): insist(lambda: os.rename(there(name), there(to)))
def head(name): print(mneme("cat", place(name)).decode())
def read(name): return open(name, "rb").read()
def learned(name, size):  # until the mount knows, without reading the file
    for i in range(500):
        try:
            if os.stat(name).st_size == size: return
        except OSError:
            if size is None: return
        time.sleep(.01)
    print(name, "is not seen to have", size)
def put(name, data, flags=os.O_TRUNC):
    fd = os.open(name, os.O_WRONLY | os.O_CREAT | flags)
    try:
        os.write(fd, data)
    finally:
        os.close(fd)
def kept():
    found = []
    for n in os.listdir("../.mneme/conflicts"):
        about = json.load(open("../.mneme/conflicts/" + n + "/about"))
        if about["path"].startswith("/" + D + "/"):
            found.append(tuple(read(p).decode() if os.path.exists(p) else None
                for p in ("../.mneme/conflicts/%s/%s" % (n, side) for side in ("base", "theirs", "yours"))))
    print("kept", *sorted(found, key=str))
def sh(script): print("exit", subprocess.run(["sh", "-c", script], stderr=subprocess.DEVNULL).returncode)
`

// TestSessionsBase holds what a session may overwrite: the version that it read
// or wrote last, and nothing else.
func TestSessionsBase(t *testing.T) {
	t.Parallel()
	t.Run("fail", func(t *testing.T) { runBaseCases(t, baseCases) })
	t.Run("taking back", func(t *testing.T) { runBaseCases(t, takeBackCases) })
	t.Run("strict", func(t *testing.T) {
		runBaseCases(t, []baseCase{
			{"blind", `theirs("f", b"one"); learned("f", 3); attempt(put, "f", b"mine"); read("f"); attempt(put, "f", b"mine"); head("f")`, "EBUSY\nok\nmine\n"},
			{"blind rename over", `theirs("f", b"one"); learned("f", 3); put("f.tmp", b"mine"); attempt(os.rename, "f.tmp", "f"); head("f")`, "EBUSY\none\n"},
			{"blind after a backup", `theirs("f", b"one"); learned("f", 3); os.rename("f", "f~"); attempt(put, "f", b"mine"); head("f")`, "EBUSY\none\n"},
			{"blind after moving away", `theirs("f", b"one"); learned("f", 3); os.rename("f", "f.bck"); attempt(put, "f", b"mine"); read("f.bck"); attempt(put, "f", b"mine"); head("f")`, "EBUSY\nok\nmine\n"},
			{"blind append", `theirs("f", b"one\n"); learned("f", 4); attempt(put, "f", b"two\n", os.O_APPEND); head("f")`, "ok\none\ntwo\n\n"},
			{"its own", `put("f", b"one"); attempt(put, "f", b"two"); head("f")`, "ok\ntwo\n"},
			{"says so", `theirs("f", b"one"); learned("f", 3); attempt(put, "f", b"mine")
print('/f" was never read in this session' in open("../.mneme/errors").read())`, "EBUSY\nTrue\n"},
		}, "--strict")
	})
	t.Run("estale", func(t *testing.T) {
		runBaseCases(t, []baseCase{
			{"open", `put("f", b"one"); theirs("f", b"two!"); attempt(put, "f", b"mine"); head("f")`, "ESTALE\ntwo!\n"},
			{"close", `put("f", b"one"); f = open("f", "wb", buffering=0); f.write(b"mine"); theirs("f", b"two!"); attempt(f.close); head("f"); kept()`,
				"ESTALE\ntwo!\nkept ('one', 'two!', 'mine')\n"},
			{"rename", `put("f", b"one"); theirs("f", b"two!"); put("f.tmp", b"mine"); attempt(os.rename, "f.tmp", "f"); kept()`,
				"ESTALE\nkept ('one', 'two!', 'mine')\n"},
			{"unlink", `put("f", b"one"); theirs("f", b"two!"); attempt(os.unlink, "f"); head("f")`, "ESTALE\ntwo!\n"},
		}, "--conflict-errno=estale")
	})
	t.Run("merge", func(t *testing.T) {
		runBaseCases(t, []baseCase{
			{"other lines", `put("f", b"a\nb\nc\n"); theirs("f", b"A\nb\nc\n"); attempt(put, "f", b"a\nb\nC\n"); head("f"); kept()`, "ok\nA\nb\nC\n\nkept\n"},
			{"seen afterwards", `put("f", b"a\nb\nc\n"); theirs("f", b"AA\nb\nc\n"); put("f", b"a\nb\nC\n"); print(read("f"))`, "b'AA\\nb\\nC\\n'\n"},
			{"the same line", `put("f", b"a\nb\nc\n"); theirs("f", b"A\nb\nc\n"); attempt(put, "f", b"x\nb\nc\n"); head("f"); kept()`,
				"EBUSY\nA\nb\nc\n\nkept ('a\\nb\\nc\\n', 'A\\nb\\nc\\n', 'x\\nb\\nc\\n')\n"},
			{"by temporary file", `put("f", b"a\nb\nc\n"); theirs("f", b"A\nb\nc\n"); put("f.tmp", b"a\nb\nC\n"); attempt(os.rename, "f.tmp", "f"); head("f")`, "ok\nA\nb\nC\n\n"},
			{"overtaken", `put("f", b"a\nb\nc\n"); f = open("f", "wb", buffering=0); f.write(b"a\nb\nC\n"); theirs("f", b"A\nb\nc\n"); attempt(f.close); head("f")`, "ok\nA\nb\nC\n\n"},
			{"two edits", `put("f", b"a\nb\nc\nd\ne\n"); theirs("f", b"A\nb\nc\nd\ne\n"); put("f", b"a\nb\nC\nd\ne\n"); attempt(put, "f", b"a\nb\nC\nd\nE\n"); head("f")`, "ok\nA\nb\nC\nd\nE\n\n"},
			{"names both", `put("f", b"a\nb\nc\n"); theirs("f", b"A\nb\nc\n"); put("f", b"a\nb\nC\n")
merged, second, first = (json.loads(line) for line in mneme("log", place("f"), "--json").splitlines())
print(merged["message"] == "merge of %s with what was written on top of %s" % (second["id"], first["id"]), merged["parent_version_id"] == second["id"])`, "True True\n"},
			{"taking back", backPrelude + `search(); attempt(put, "f", b"a\nb\nmine\n"); head("f"); kept()`, "ok\na\nx\nb\nmine\n\nkept\n"},
			{"taking back, by temporary file", backPrelude + `search(); put("f.tmp", b"a\nb\nmine\n"); attempt(os.rename, "f.tmp", "f"); head("f"); print(read("f"))`,
				"ok\na\nx\nb\nmine\n\nb'a\\nx\\nb\\nmine\\n'\n"},
			{"taking back all of it", backPrelude + `search(); attempt(put, "f", b"a\nb\n"); head("f"); read("f"); attempt(put, "f", b"a\nb\n"); head("f")`, "ok\na\nx\nb\n\nok\na\nb\n\n"},
			{"taking back, the same line", backPrelude + `search(); attempt(put, "f", b"a\nmine\nb\n"); attempt(put, "f", b"a\nmine\nb\n"); head("f"); kept(); read("f"); attempt(put, "f", b"a\nmine\nb\n")`,
				"EBUSY\nEBUSY\na\nx\nb\n\nkept ('a\\nb\\n', 'a\\nx\\nb\\n', 'a\\nmine\\nb\\n') ('a\\nb\\n', 'a\\nx\\nb\\n', 'a\\nmine\\nb\\n')\nok\n"},
			{"taking back, synced and closed", backPrelude + `search(); f = open("f", "wb", buffering=0); f.write(b"a\nmine\nb\n"); attempt(os.fsync, f.fileno()); attempt(f.close); head("f")`,
				"EBUSY\nEBUSY\na\nx\nb\n\n"},
			{"both made it", `theirs("f", b"x\n"); fd = os.open("g", os.O_CREAT | os.O_WRONLY); os.write(fd, b"y\n"); theirs("g", b"z\n"); attempt(os.close, fd); kept()`,
				"EBUSY\nkept (None, 'z\\n', 'y\\n')\n"},
		}, "--on-conflict=merge")
	})
}

var baseCases = []baseCase{
	// Stale before open.
	{"> after read", `theirs("f", b"one"); learned("f", 3); read("f"); theirs("f", b"two!"); attempt(put, "f", b"mine"); head("f")`, "EBUSY\ntwo!\n"},
	{"> after write", `put("f", b"one"); theirs("f", b"two!"); attempt(put, "f", b"mine"); head("f")`, "EBUSY\ntwo!\n"},
	{"> in a shell", `put("f", b"one"); theirs("f", b"two!"); sh("echo mine > f"); head("f")`, "exit 2\ntwo!\n"},
	{"again without reading", `put("f", b"one"); theirs("f", b"two!"); attempt(put, "f", b"mine"); attempt(put, "f", b"mine"); learned("f", 4); os.stat("f"); os.listdir(".")
attempt(put, "f", b"mine"); head("f")`, "EBUSY\nEBUSY\nEBUSY\ntwo!\n"},
	{"again after reading", `put("f", b"one"); theirs("f", b"two!"); attempt(put, "f", b"mine"); print(read("f")); attempt(put, "f", b"mine"); head("f")`, "EBUSY\nb'two!'\nok\nmine\n"},
	{"read by another program", `put("f", b"one"); theirs("f", b"two!"); learned("f", 4); sh("cat f > /dev/null"); attempt(put, "f", b"two!\nmine")`, "exit 0\nok\n"},
	{"again after opening", `put("f", b"one"); theirs("f", b"two!"); learned("f", 4); os.close(os.open("f", os.O_RDONLY)); attempt(put, "f", b"mine"); print(read("f")); attempt(put, "f", b"mine"); head("f")`,
		"EBUSY\nb'two!'\nok\nmine\n"},
	{"again after reading some", `put("f", b"one"); theirs("f", b"two!" * 9999); learned("f", 39996); fd = os.open("f", os.O_RDONLY); print(os.pread(fd, 4, 30000)); attempt(put, "f", b"two!" * 9999 + b"\nmine"); print(len(read("f")))`, "b'two!'\nok\n40001\n"},
	{"again after reading what the kernel has", `put("f", b"one"); theirs("f", b"two!" * 9999); learned("f", 39996); fd = os.open("f", os.O_RDWR); print(os.pread(fd, 4, 30000)); os.close(fd); attempt(put, "f", b"mine")
fd = os.open("f", os.O_RDONLY); print(os.pread(fd, 4, 30000)); attempt(put, "f", b"mine"); head("f")`, "b'two!'\nEBUSY\nb'two!'\nok\nmine\n"},
	{"again after reading nothing, since it is empty", `put("f", b"one"); theirs("f", b""); learned("f", 0); print(read("f")); attempt(put, "f", b"mine"); head("f")`, "b''\nok\nmine\n"},
	{"opened one after another, and then read", `
names = ["f%d" % i for i in range(20)]
for name in names: put(name, b"one")
for name in names: theirs(name, b"two!")
for name in names: learned(name, 4)
os.listdir(".")
files = [os.open(name, os.O_RDONLY) for name in names]
time.sleep(.2) # in which what was fetched ahead would be pushed
for file in files: os.read(file, 9)
print(sum(put(name, b"two!\nmine") or 1 for name in names))`, "20\n"},
	{"removed here, made there", `put("f", b"one"); os.unlink("f"); theirs("f", b"two!"); learned("f", 4); attempt(put, "f", b"mine"); head("f"); read("f"); attempt(put, "f", b"mine"); head("f")`,
		"EBUSY\ntwo!\nok\nmine\n"},
	{"removed here, made there, removed", `put("f", b"one"); os.unlink("f"); theirs("f", b"two!"); learned("f", 4); attempt(os.unlink, "f"); head("f")`, "EBUSY\ntwo!\n"},
	{"moved away, made there, moved back", `put("f", b"one"); os.rename("f", "f.old"); theirs("f", b"two!"); learned("f", 4); attempt(os.rename, "f.old", "f"); head("f"); kept()`,
		"EBUSY\ntwo!\nkept (None, 'two!', 'one')\n"},
	{"moved over here, made there", `put("f", b"one"); put("g", b"x"); os.rename("f", "g"); theirs("f", b"two!"); learned("f", 4); attempt(put, "f", b"mine"); head("f"); head("g")`, "EBUSY\ntwo!\none\n"},
	{"directory moved here, made there", `os.mkdir("d"); put("d/f", b"one"); os.rename("d", "e"); theirs("d/f", b"two!"); learned("d/f", 4); attempt(put, "d/f", b"mine"); head("d/f"); head("e/f")`,
		"EBUSY\ntwo!\none\n"},
	{"removed here, made here", `put("f", b"one"); os.unlink("f"); put("f", b"two"); os.rename("f", "g"); put("f", b"three"); attempt(put, "f", b"mine"); head("f")`, "ok\nmine\n"},
	{"hidden, and changed", `put("f", b"one"); theirs("f", b"two!"); learned("f", 4); os.rename("f", "f~"); attempt(put, "f", b"mine")
print('this mount has it as "/%s/f~": read that' % D in open("../.mneme/errors").read()); print(read("f~")); attempt(put, "f", b"mine"); head("f")`, "EBUSY\nTrue\nb'two!'\nok\nmine\n"},
	{"moved away unread, made anew", `put("f", b"one"); theirs("f", b"two!"); learned("f", 4); os.rename("f", "f.bck"); attempt(put, "f", b"mine"); attempt(put, "f", b"mine")
print('was moved to "/%s/f.bck" by this session' % D in open("../.mneme/errors").read())
attempt(os.unlink, "f.bck"); print(read("f.bck")); attempt(put, "f", b"mine"); attempt(os.unlink, "f.bck"); head("f")`, "EBUSY\nEBUSY\nTrue\nEBUSY\nb'two!'\nok\nok\nmine\n"},
	{"moved away unread, unheard of", `put("f", b"one"); theirs("f", b"two!"); os.rename("f", "f.bck"); attempt(put, "f", b"mine"); head("f.bck")`, "EBUSY\ntwo!\n"},
	{"moved away unread, and back", `put("f", b"one"); theirs("f", b"two!"); os.rename("f", "f.bck"); attempt(put, "f", b"mine"); os.rename("f.bck", "f"); attempt(put, "f", b"mine"); read("f"); attempt(put, "f", b"mine"); head("f")`,
		"EBUSY\nEBUSY\nok\nmine\n"},
	{"moved away unread, another in its place", `put("f", b"one"); theirs("f", b"two!"); put("mine", b"mine"); os.rename("f", "f.orig"); attempt(os.rename, "mine", "f")
put("f.tmp", b"mine"); attempt(os.rename, "f.tmp", "f"); head("f.orig"); read("f.orig"); attempt(os.rename, "mine", "f"); head("f")`, "EBUSY\nEBUSY\ntwo!\nok\nmine\n"},
	{"moved away unread, over another", `put("f.bak", b"zero"); put("f", b"one"); theirs("f", b"two!"); learned("f", 4); os.rename("f", "f.bak"); attempt(put, "f", b"mine"); head("f.bak"); read("f.bak"); attempt(put, "f", b"mine"); head("f")`,
		"EBUSY\ntwo!\nok\nmine\n"},
	{"moved away unread with its directory", `os.mkdir("d"); put("d/f", b"one"); theirs("d/f", b"two!"); learned("d/f", 4); os.rename("d", "e"); os.mkdir("d"); attempt(put, "d/f", b"mine"); read("e/f"); attempt(put, "d/f", b"mine"); head("d/f")`,
		"EBUSY\nok\nmine\n"},
	{"moved away unread, appended to anew", `put("f", b"one"); theirs("f", b"two!"); os.rename("f", "f.1"); attempt(put, "f", b"mine", os.O_APPEND); head("f"); head("f.1")`, "ok\nmine\ntwo!\n"},
	{"moved away, and changed there", `put("f", b"one"); os.rename("f", "f.bck"); theirs("f.bck", b"two!"); learned("f.bck", 4); attempt(put, "f", b"mine"); head("f"); head("f.bck")`, "ok\nmine\ntwo!\n"},
	{"moved away read, made anew", `put("f", b"one"); theirs("f", b"two!"); learned("f", 4); read("f"); os.rename("f", "f.bck"); attempt(put, "f", b"mine"); head("f"); head("f.bck")`, "ok\nmine\ntwo!\n"},
	{"the same bytes again", `put("f", b"one"); theirs("f", b"two!"); theirs("f", b"one"); attempt(put, "f", b"mine"); head("f")`, "ok\nmine\n"},
	{"never read", `theirs("f", b"one"); learned("f", 3); attempt(put, "f", b"mine"); head("f"); theirs("f", b"two!"); attempt(put, "f", b"more"); head("f")`, "ok\nmine\nEBUSY\ntwo!\n"},
	{"without truncation", `put("f", b"one"); theirs("f", b"two!"); attempt(put, "f", b"m", 0); head("f")`, "EBUSY\ntwo!\n"},
	{"r+ that reads first", `put("f", b"one"); theirs("f", b"two!"); f = open("f", "r+b", buffering=0); print(f.read()); f.seek(0); f.write(b"T"); attempt(f.close); head("f")`, "b'two!'\nok\nTwo!\n"},
	{"r+ that only writes", `put("f", b"one"); theirs("f", b"two!"); f = open("f", "r+b", buffering=0); attempt(f.write, b"mine"); attempt(f.close); head("f"); kept()`,
		"EBUSY\nEBUSY\ntwo!\nkept ('one', 'two!', 'mine')\n"},
	{"a patch of what was read", `put("f", b"one"); theirs("f", b"two!"); f = open("f", "r+b", buffering=0); f.seek(1); attempt(f.write, b"N"); attempt(f.write, b"E"); attempt(f.close); head("f"); kept()`,
		"EBUSY\nEBUSY\nEBUSY\ntwo!\nkept ('one', 'two!', 'oEe')\n"},
	{"truncate by name", `put("f", b"one"); theirs("f", b"two!"); attempt(os.truncate, "f", 1); head("f")`, "EBUSY\ntwo!\n"},
	{"truncate a handle", `put("f", b"one"); f = open("f", "r+b", buffering=0); theirs("f", b"two!"); learned("f", 4); attempt(f.truncate, 1); attempt(f.close); head("f")`, "EBUSY\nEBUSY\ntwo!\n"},
	{"rename over", `put("f", b"one"); theirs("f", b"two!"); put("f.tmp", b"mine"); attempt(os.rename, "f.tmp", "f"); attempt(os.rename, "f.tmp", "f"); head("f"); kept()
read("f"); attempt(os.rename, "f.tmp", "f"); head("f")`, "EBUSY\nEBUSY\ntwo!\nkept ('one', 'two!', 'mine')\nok\nmine\n"},
	{"rename a memory over", `put("f", b"one"); put("g", b"mine"); theirs("f", b"two!"); attempt(os.rename, "g", "f"); head("f"); head("g")`, "EBUSY\ntwo!\nmine\n"},
	{"unlink", `put("f", b"one"); theirs("f", b"two!"); attempt(os.unlink, "f"); head("f"); read("f"); attempt(os.unlink, "f"); print(os.listdir("."))`, "EBUSY\ntwo!\nok\n['here']\n"},
	{"unlink what was never read", `theirs("f", b"one"); learned("f", 3); attempt(os.unlink, "f"); print(os.listdir("."))`, "ok\n['here']\n"},
	{"append", `put("f", b"one\n"); theirs("f", b"two!\n"); attempt(put, "f", b"mine\n", os.O_APPEND); head("f"); attempt(put, "f", b"mine"); head("f")`, "ok\ntwo!\nmine\n\nEBUSY\ntwo!\nmine\n\n"},
	{"its own, often", `for i in range(20): put("f", b"%d" % i)
os.rename("f", "g"); put("g", b"x"); put("g.tmp", b"y"); os.rename("g.tmp", "g"); put("g", b"z"); os.truncate("g", 0); put("g", b"w", os.O_APPEND); put("g", b"v"); head("g")`, "v\n"},
	{"two of its programs", `put("f", b"one"); a = open("f", "r+b", buffering=0); b = open("f", "r+b", buffering=0); a.write(b"A"); a.close(); b.seek(1); b.write(b"B"); attempt(b.close); head("f")`, "ok\nABe\n"},
	{"fsync between", `f = open("f", "wb", buffering=0)
for i in range(5): f.write(b"%d" % i); os.fsync(f.fileno())
attempt(f.close); head("f")`, "ok\n01234\n"},

	// Overtaken between open and close.
	{"close", `put("f", b"one"); f = open("f", "wb", buffering=0); f.write(b"mine"); theirs("f", b"two!"); attempt(f.close); head("f"); kept(); attempt(put, "f", b"again"); print(read("f"))`,
		"EBUSY\ntwo!\nkept ('one', 'two!', 'mine')\nEBUSY\nb'two!'\n"},
	{"fsync", `put("f", b"one"); f = open("f", "wb", buffering=0); f.write(b"mine"); theirs("f", b"two!"); attempt(os.fsync, f.fileno()); attempt(os.fsync, f.fileno()); attempt(f.write, b", more")
attempt(f.close); head("f"); kept()`, "EBUSY\nEBUSY\nEBUSY\nEBUSY\ntwo!\nkept ('one', 'two!', 'mine, more')\n"},
	{"after it has arrived", `put("f", b"one"); f = open("f", "wb", buffering=0); f.write(b"mine"); theirs("f", b"three!"); learned("f", 6); print(read("f")); attempt(f.write, b", more"); attempt(f.close); kept()`,
		"b'three!'\nEBUSY\nEBUSY\nkept ('one', 'three!', 'mine, more')\n"},
	{"dup", `put("f", b"one"); f = os.open("f", os.O_WRONLY | os.O_TRUNC); g = os.dup(f); os.write(f, b"mine"); theirs("f", b"two!"); attempt(os.close, f); attempt(os.close, g); kept()`,
		"EBUSY\nEBUSY\nkept ('one', 'two!', 'mine')\n"},
	{"never read, overtaken, again", `theirs("f", b"one"); learned("f", 3); f = open("f", "wb", buffering=0); f.write(b"mine"); theirs("f", b"two!"); attempt(f.close); attempt(put, "f", b"mine"); head("f")`,
		"EBUSY\nEBUSY\ntwo!\n"},
	{"both made it", `f = open("f", "wb", buffering=0); f.write(b"mine"); theirs("f", b"two!"); attempt(f.close); attempt(put, "f", b"mine"); kept(); print(read("f")); attempt(put, "f", b"mine")`,
		"EBUSY\nEBUSY\nkept (None, 'two!', 'mine')\nb'two!'\nok\n"},
	{"removed", `put("f", b"one"); f = open("f", "wb", buffering=0); f.write(b"mine"); removed("f"); attempt(f.close); kept()`, "EBUSY\nkept ('one', None, 'mine')\n"},
	{"removed while it was idle", `put("f", b"one"); f = open("f", "r+b", buffering=0); removed("f"); learned("f", None); attempt(f.write, b"mine"); attempt(f.close); kept()`,
		"EBUSY\nEBUSY\nkept ('one', None, 'mine')\n"},
	{"append", `put("f", b"one\n"); f = open("f", "ab", buffering=0); f.write(b"a\n"); theirs("f", b"two!\n"); f.write(b"b\n"); attempt(f.close); head("f"); print(read("f"))`,
		"ok\ntwo!\na\nb\n\nb'two!\\na\\nb\\n'\n"},
	{"append the same line", `put("f", b"one\n"); f = open("f", "ab", buffering=0); f.write(b"x\n"); theirs("f", b"one\nx\n"); attempt(f.close); head("f")`, "ok\none\nx\nx\n\n"},
	{"append, idle", `put("f", b"one\n"); f = open("f", "ab", buffering=0); theirs("f", b"two!\n"); learned("f", 5); f.write(b"a\n"); attempt(f.close); head("f")`, "ok\ntwo!\na\n\n"},
	{"append to what was removed", `put("f", b"one\n"); f = open("f", "ab", buffering=0); f.write(b"a\n"); removed("f"); attempt(f.close); head("f")`, "ok\na\n\n"},
	{"append to what both made", `f = open("f", "ab", buffering=0); f.write(b"a\n"); theirs("f", b"b\n"); attempt(f.close); head("f")`, "ok\nb\na\n\n"},
	{"mapping", `put("f", b"one!"); f = open("f", "r+b", buffering=0); m = mmap.mmap(f.fileno(), 0); m[0:4] = b"mine"; theirs("f", b"two!"); attempt(m.flush); attempt(os.fsync, f.fileno()); m.close(); attempt(f.close)
head("f"); kept()`, "EBUSY\nEBUSY\nEBUSY\ntwo!\nkept ('one!', 'two!', 'mine')\n"},

	{"read on in the middle", `put("f", b"one"); f = open("f", "rb", buffering=0); f.read(2); theirs("f", b"three!"); learned("f", 6); f.read(); f.close(); attempt(put, "f", b"mine")
f = open("f", "r+b", buffering=0); f.read(2); theirs("f", b"four more"); learned("f", 9); f.read(); f.seek(0); attempt(f.write, b"mine"); attempt(f.close); head("f")`, "EBUSY\nEBUSY\nEBUSY\nfour more\n"},

	// Names.
	{"removed and made anew", `put("f", b"one"); removed("f"); theirs("f", b"two!"); attempt(put, "f", b"mine"); head("f")`, "EBUSY\ntwo!\n"},
	{"removed, noticed, made anew", `put("f", b"one"); removed("f"); learned("f", None); theirs("f", b"two!"); learned("f", 4); attempt(put, "f", b"mine"); head("f")`, "EBUSY\ntwo!\n"},
	{"removed", `put("f", b"one"); removed("f"); learned("f", None); attempt(put, "f", b"mine"); head("f")`, "ok\nmine\n"},
	{"removed here, made there", `put("f", b"one"); os.unlink("f"); theirs("f", b"two!"); learned("f", 4); read("f"); attempt(put, "f", b"two!\nmine")`, "ok\n"},
	{"moved there", `put("f", b"one"); moved("f", "g"); learned("g", 3); attempt(put, "g", b"mine"); head("g")`, "ok\nmine\n"},
	{"moved and changed there", `put("f", b"one"); moved("f", "g"); theirs("g", b"two!"); learned("g", 4); attempt(put, "g", b"mine"); head("g")`, "EBUSY\ntwo!\n"},
	{"moved here, changed there", `put("f", b"one"); os.rename("f", "g"); theirs("g", b"two!"); attempt(put, "g", b"mine"); head("g")`, "EBUSY\ntwo!\n"},
	{"moved over here, changed there", `put("f", b"one"); put("g", b"x"); os.rename("f", "g"); theirs("g", b"two!"); attempt(put, "g", b"mine"); head("g")`, "EBUSY\ntwo!\n"},
	{"backup first", `put("f", b"one"); theirs("f", b"two!"); os.rename("f", "f~"); attempt(put, "f", b"mine"); os.rename("f~", "f"); head("f")`, "EBUSY\ntwo!\n"},
	{"backup, then overtaken", `put("f", b"one"); os.rename("f", "f~"); theirs("f", b"two!"); learned("f", 4); attempt(put, "f", b"mine"); os.unlink("f~"); head("f")`, "EBUSY\ntwo!\n"},
	{"backup, its own", `put("f", b"one"); os.rename("f", "f~"); put("f", b"mine"); os.unlink("f~"); attempt(put, "f", b"more"); head("f")`, "ok\nmore\n"},
	{"directory moved here", `os.mkdir("d"); put("d/f", b"one"); os.rename("d", "e"); theirs("e/f", b"two!"); attempt(put, "e/f", b"mine"); head("e/f")`, "EBUSY\ntwo!\n"},
	{"a longer version", `put("f", b"one"); theirs("f", b"two" * 2000)
for i in range(300):
    try: f = open("f", "r+b", buffering=0)
    except OSError: continue
    got = f.read(); break
print(len(got)); f.seek(0); f.write(b"T"); attempt(f.close); print(len(read("f")))`, "6000\nok\n6000\n"},
	{"says what to do", `put("f", b"one"); f = open("f", "wb", buffering=0); f.write(b"mine"); theirs("f", b"two!"); attempt(f.close)
line = [l for l in open("../.mneme/errors") if D + '/f" ' in l][-1]
print(all(part in line for part in ('"notes:/' + D + '/f" changed since you read it (version ', " ago); read it again and redo your edit; your text is kept in .mneme/conflicts/", "/yours")))`, "EBUSY\nTrue\n"},
}

// backPrelude begins a case in which the session knows a text that another one has
// then added a line to; search() makes it read that, as one of its programs does
// that searches all files.
const backPrelude = `
def search(): subprocess.run("grep -r x .", shell=True, stdout=subprocess.DEVNULL)
put("f", b"a\nb\n"); theirs("f", b"a\nx\nb\n"); learned("f", 6)
`

// takeBackCases are what a session may do with a change that it has only read.
var takeBackCases = func() (cases []baseCase) {
	for _, c := range []baseCase{
		{">", `search(); attempt(put, "f", b"a\nb\nmine\n"); head("f"); kept(); attempt(put, "f", b"a\nb\nmine\n"); print(read("f")); attempt(put, "f", b"a\nb\nmine\n"); head("f")`,
			"EBUSY\na\nx\nb\n\nkept ('a\\nb\\n', 'a\\nx\\nb\\n', 'a\\nb\\nmine\\n')\nEBUSY\nb'a\\nx\\nb\\n'\nok\na\nb\nmine\n\n"},
		{"keeping it", `search(); attempt(put, "f", b"A\nx\nmine\n"); head("f"); kept()`, "ok\nA\nx\nmine\n\nkept\n"},
		{"the same bytes", `search(); attempt(put, "f", b"a\nx\nb\n"); attempt(os.truncate, "f", 6); head("f")`, "ok\nok\na\nx\nb\n\n"},
		{"its own text again", `search(); attempt(put, "f", b"a\nb\n"); head("f")`, "EBUSY\na\nx\nb\n\n"},
		{"what it removed", `put("g", b"a\nb\nc\n"); theirs("g", b"a\nc\n"); learned("g", 4); read("g"); attempt(put, "g", b"a\nb\nc\nmine\n"); attempt(put, "g", b"a\nc\nmine\n"); head("g")`, "EBUSY\nok\na\nc\nmine\n\n"},
		{"says so", `search(); attempt(put, "f", b"mine")
line = [l for l in open("../.mneme/errors") if D + '/f" ' in l][-1]
print(all(part in line for part in ('/f" was not saved: that would take back what version ', " changed (by session ", " ago); read it again, and do the same again if that is meant; your text is kept in .mneme/conflicts/", "/yours")))`, "EBUSY\nTrue\n"},
		{"after two changes", `read("f"); theirs("f", b"a\nx\nb\ny\n"); learned("f", 8); read("f"); attempt(put, "f", b"a\nb\ny\n"); attempt(put, "f", b"a\nx\nb\n"); attempt(put, "f", b"mine\na\ny\nb\nx\n")`, "EBUSY\nEBUSY\nok\n"},
		{"after nine changes", `
for i in range(8): theirs("f", b"a\nx%d\nb\n" % i); search()
attempt(put, "f", b"a\nb\nmine\n")`, "EBUSY\n"},
		{"after another of its programs has written", `search(); put("f", b"a\nx\nb\nmine\n"); attempt(put, "f", b"a\nb\nmore\n"); head("f")`, "EBUSY\na\nx\nb\nmine\n\n"},
		{"after it has appended", `search(); put("f", b"mine\n", os.O_APPEND); attempt(put, "f", b"a\nb\n"); attempt(put, "f", b"a\nx\nb\n"); head("f")`, "EBUSY\nok\na\nx\nb\n\n"},
		{"after it has appended unread", `put("f", b"mine\n", os.O_APPEND); search(); attempt(put, "f", b"a\nb\n"); attempt(put, "f", b"a\nx\nb\n"); head("f")`, "EBUSY\nok\na\nx\nb\n\n"},
		{"what is meant, and another of its programs", `search(); attempt(put, "f", b"a\nb\n"); read("f"); put("f", b"a\nx\nb\nmine\n"); attempt(put, "f", b"a\nb\nmore\n"); head("f")`, "EBUSY\nEBUSY\na\nx\nb\nmine\n\n"},
		{"appending", `search(); attempt(put, "f", b"mine\n", os.O_APPEND); head("f")`, "ok\na\nx\nb\nmine\n\n"},
		{"synced", `search(); f = open("f", "wb", buffering=0); f.write(b"mine"); attempt(os.fsync, f.fileno()); attempt(f.write, b"more"); attempt(f.close); head("f"); kept()`,
			"EBUSY\nEBUSY\nEBUSY\na\nx\nb\n\nkept ('a\\nb\\n', 'a\\nx\\nb\\n', 'minemore')\n"},
		{"refused, and only opened", `search(); attempt(put, "f", b"mine"); os.close(os.open("f", os.O_RDONLY)); attempt(put, "f", b"mine"); os.close(os.open("f", os.O_RDWR)); attempt(put, "f", b"mine"); head("f")`,
			"EBUSY\nEBUSY\nEBUSY\na\nx\nb\n\n"},
		{"refused, and read on", `f = open("f", "rb", buffering=0); f.read(1); attempt(put, "f", b"mine"); f.read(); attempt(put, "f", b"mine"); head("f")`, "EBUSY\nEBUSY\na\nx\nb\n\n"},
		{"r+ that reads first", `search(); f = open("f", "r+b", buffering=0); f.read(); f.seek(0); f.write(b"A\nX\nB"); attempt(f.close); head("f")`, "ok\nA\nX\nB\n\n"},
		{"r+ that only writes", `search(); f = open("f", "r+b", buffering=0); f.write(b"A\nX\nB"); attempt(f.close); head("f")`, "EBUSY\na\nx\nb\n\n"},
		{"r+ that keeps it", `search(); f = open("f", "r+b", buffering=0); f.write(b"A"); attempt(f.close); head("f")`, "ok\nA\nx\nb\n\n"},
		{"mapping", `search(); f = open("f", "r+b", buffering=0); m = mmap.mmap(f.fileno(), 0); m[0:3] = b"A\nX"; m.flush(); m.close(); attempt(f.close); head("f")`, "ok\nA\nX\nb\n\n"},
		{"truncate by name", `search(); attempt(os.truncate, "f", 0); attempt(os.truncate, "f", 5); head("f"); read("f"); attempt(os.truncate, "f", 0); head("f")`, "EBUSY\nok\na\nx\nb\nok\n\n"},
		{"rename over", `search(); put("f.tmp", b"a\nb\nmine\n"); attempt(os.rename, "f.tmp", "f"); attempt(os.rename, "f.tmp", "f"); head("f"); kept(); read("f"); attempt(os.rename, "f.tmp", "f"); head("f")`,
			"EBUSY\nEBUSY\na\nx\nb\n\nkept ('a\\nb\\n', 'a\\nx\\nb\\n', 'a\\nb\\nmine\\n')\nok\na\nb\nmine\n\n"},
		{"rename over, keeping it", `search(); put("f.tmp", b"a\nx\nB\n"); attempt(os.rename, "f.tmp", "f"); head("f")`, "ok\na\nx\nB\n\n"},
		{"rename a memory over", `put("g", b"mine"); search(); attempt(os.rename, "g", "f"); read("f"); attempt(os.rename, "g", "f"); head("f")`, "EBUSY\nok\nmine\n"},
		{"renamed, and then over", `search(); os.rename("f", "g"); attempt(put, "g", b"a\nb\n"); head("g")`, "EBUSY\na\nx\nb\n\n"},
		{"unlink", `search(); attempt(os.unlink, "f"); attempt(os.unlink, "f"); head("f")
print('/f" was not removed: that would take back what version ' in open("../.mneme/errors").read()); read("f"); attempt(os.unlink, "f"); print(os.listdir("."))`, "EBUSY\nEBUSY\na\nx\nb\n\nTrue\nok\n['here']\n"},
		{"unlink of its own", `search(); put("f", b"a\nx\nb\nmine\n"); attempt(os.unlink, "f")`, "ok\n"},
		{"unlink, and written", `search(); sh("rm f; echo mine > f"); head("f"); kept()`, "exit 0\na\nx\nb\n\nkept ('a\\nb\\n', 'a\\nx\\nb\\n', 'mine\\n')\n"},
		{"backup first", `search(); os.rename("f", "f~"); attempt(put, "f", b"a\nb\nmine\n"); print('this mount has it as "/%s/f~": read that' % D in open("../.mneme/errors").read())
print(read("f~")); attempt(put, "f", b"a\nb\nmine\n"); head("f")`, "EBUSY\nTrue\nb'a\\nx\\nb\\n'\nok\na\nb\nmine\n\n"},
		{"backup first, keeping it", `search(); os.rename("f", "f~"); attempt(put, "f", b"a\nx\nmine\n"); os.unlink("f~"); attempt(put, "f", b"a\nb\n"); head("f")`, "ok\nEBUSY\na\nx\nmine\n\n"},
		{"removed here, made there", `put("g", b"one"); os.unlink("g"); theirs("g", b"two!"); learned("g", 4); read("g"); attempt(put, "g", b"mine"); read("g"); attempt(put, "g", b"mine"); head("g")`, "EBUSY\nok\nmine\n"},
		{"removed and made anew there", `search(); removed("f"); learned("f", None); theirs("f", b"y\n"); learned("f", 2); read("f"); attempt(put, "f", b"a\nx\nb\n"); head("f")`, "EBUSY\ny\n\n"},
		{"restored there", `search(); first = json.loads(mneme("log", place("f"), "--json").splitlines()[-1]); mneme("restore", place("f"), first["id"]); learned("f", 4); read("f")
attempt(put, "f", b"a\nx\nb\n"); attempt(put, "f", b"a\nb\nmine\n"); head("f")`, "EBUSY\nok\na\nb\nmine\n\n"},
		{"never read before", `theirs("g", b"one\n"); learned("g", 4); read("g"); theirs("g", b"one\ntwo\n"); learned("g", 8); read("g"); attempt(put, "g", b"one\nmine\n"); theirs("h", b"one\n"); learned("h", 4); read("h"); attempt(put, "h", b"mine\n")`, "EBUSY\nok\n"},
		{"cut where it ended before", `theirs("g", b"one\n"); learned("g", 4); size = os.stat("g").st_size; theirs("g", b"one\ntwo\n"); learned("g", 8); text = read("g")[:size]; attempt(put, "g", text); read("g"); attempt(put, "g", text); head("g")
theirs("h", b"one\n"); learned("h", 4); size = os.stat("h").st_size; theirs("h", b"first\none\n"); learned("h", 10); put("h.tmp", read("h")[:size]); attempt(os.rename, "h.tmp", "h")
print(" was not saved: that would drop the end of version " in open("../.mneme/errors").read())`, "EBUSY\nok\none\n\nEBUSY\nTrue\n"},
		{"sed -i", `search(); sh("sed -i s/^a/mine/ f"); head("f"); sh("sed -i s/^x/mine/ f"); read("f"); sh("sed -i s/^x/mine/ f"); head("f")`, "exit 0\nmine\nx\nb\n\nexit 4\nexit 0\nmine\nmine\nb\n\n"},
		{"cp", `search(); sh("printf 'a\\nb\\n' | cp /dev/stdin f"); sh("printf 'a\\nx\\nmore\\n' | cp /dev/stdin f"); head("f")`, "exit 1\nexit 0\na\nx\nmore\n\n"},
	} {
		c.code = backPrelude + c.code
		cases = append(cases, c)
	}
	return cases
}()

func runBaseCases(t *testing.T, cases []baseCase, flags ...string) {
	e := harness.NewEnv(t)
	refresh := "--refresh=1s"
	if e.Remote != nil { // most cases wait for the other mount to hear of something
		refresh = "--refresh=50ms"
	}
	m, other := e.Mount(t, append([]string{"notes", refresh}, flags...)...), e.Mount(t, "notes", refresh)
	for i, c := range cases {
		t.Run(strings.ReplaceAll(c.name, " ", "-"), func(t *testing.T) {
			dir := fmt.Sprintf("c%02d", i)
			m.Sh(t, "mkdir "+dir+"; echo x > "+dir+"/here")
			code := fmt.Sprintf("D, OTHER = %q, %q\n", dir, other.Dir) + basePrelude + c.code
			if got := m.ShIn(t, m.Dir+"/"+dir, harness.PyErr(code)); got != c.want {
				t.Errorf("printed\n%swant\n%s", got, c.want)
			}
		})
	}
}
