package conflict

import "testing"

// TestDirectoriesOfTwoSessions holds what becomes of directories that one
// session renames or removes while another one works in them.
func TestDirectoriesOfTwoSessions(t *testing.T) {
	t.Parallel()
	runBaseCases(t, []baseCase{
		{"renamed here, changed there", `os.mkdir("d"); put("d/f", b"one"); theirs("d/f", b"two!"); os.rename("d", "e"); head("e/f"); print(os.listdir("."))`,
			"two!\n['e', 'here']\n"},
		{"renamed here, made there", `os.mkdir("d"); put("d/f", b"one"); theirs("d/g", b"new"); os.rename("d", "e"); head("e/f"); head("e/g")`, "one\nnew\n"},
		{"renamed here, open here", `os.mkdir("d"); put("d/f", b"one"); f = open("d/f", "wb", buffering=0); f.write(b"mine"); os.rename("d", "e"); attempt(f.close); head("e/f"); kept()`,
			"ok\nmine\nkept\n"},
		{"renamed there, open here", `os.mkdir("d"); put("d/f", b"one"); f = open("d/f", "wb", buffering=0); f.write(b"mine"); moved("d", "e"); learned("e/f", 3); attempt(f.close); head("e/f"); kept()`,
			"ok\nmine\nkept\n"},
		{"removed there, open here", `os.mkdir("d"); put("d/f", b"one"); f = open("d/f", "wb", buffering=0); f.write(b"mine"); removed("d/f"); attempt(f.close); kept()`,
			"EBUSY\nkept ('one', None, 'mine')\n"},
		{"gained a file", `os.mkdir("d"); theirs("d/f", b"one"); learned("d/f", 3); attempt(os.rmdir, "d"); head("d/f")`, "ENOTEMPTY\none\n"},
		{"a file there, a directory here", `os.mkdir("d"); fd = os.open("d/f", os.O_CREAT | os.O_WRONLY); os.write(fd, b"mine"); removedDir("d"); theirs("d", b"file"); learned("d", 4); attempt(os.close, fd); head("d"); kept()`,
			"EBUSY\nfile\nkept (None, None, 'mine')\n"},
		{"made here, wanted there", `os.mkdir("d"); insist(lambda: os.stat(there("here"))); attempt(os.mkdir, there("d")); removedDir("d"); missed("d"); attempt(os.mkdir, there("d")); attempt(os.mkdir, "d"); print(os.listdir("."))`,
			"EEXIST\nok\nEEXIST\n['d', 'here']\n"},
		{"removed there", `os.mkdir("d"); removedDir("d"); attempt(os.rmdir, "d"); missed("d"); attempt(put, "d/f", b"mine"); print(os.listdir("."))`, "ENOENT\nENOENT\n['here']\n"},
		{"emptied there", `os.mkdir("d"); put("d/f", b"one"); removed("d/f"); missed("d/f"); print(os.listdir("d"), os.listdir(there("d")))`, "[] []\n"},
		{"filled there, removed here", `os.mkdir("d"); theirs("d/f", b"one"); attempt(os.rmdir, "d"); print(os.listdir("d"))`, "ENOTEMPTY\n['f']\n"},
		{"a directory there, a file here", `theirs("n/x", b"one"); learned("n/x", 3); attempt(put, "n", b"mine"); head("n/x")`, "EISDIR\none\n"},
		{"a file there, then a directory here", `theirs("n", b"file"); learned("n", 4); attempt(os.mkdir, "n"); attempt(put, "n/x", b"mine"); head("n")`, "EEXIST\nENOTDIR\nfile\n"},
		{"both made it", `fd = os.open("f", os.O_CREAT | os.O_EXCL | os.O_WRONLY); os.write(fd, b"mine"); theirs("f", b"two!"); attempt(os.close, fd); head("f"); kept()`,
			"EBUSY\ntwo!\nkept (None, 'two!', 'mine')\n"},
		{"made there first", `theirs("f", b"two!"); attempt(os.open, "f", os.O_CREAT | os.O_EXCL | os.O_WRONLY); head("f")`, "EEXIST\ntwo!\n"},
	})
}
