package harness

// PyErr is a line of Python that makes one call and prints its errno's name.
func PyErr(code string) string {
	return `python3 - <<'END'
import ctypes, errno, fcntl, os, socket, stat, struct, sys, unicodedata
def attempt(f, *args, **kw):
    try: f(*args, **kw); print("ok")
    except OSError as e: print(errno.errorcode[e.errno])
def write(name, data, mode="wb"):
    f = open(name, mode, buffering=0)
    try: f.write(data)
    finally: f.close()
def settled(name, want):  # a failed close is undone when the kernel lets go of the handle
    import time
    for i in range(200):
        try:
            if open(name).read() == want: break
        except ValueError: pass
        time.sleep(.01)
    print(open(name, "rb").read().decode(errors="replace"), end="")
` + code + "\nEND\n"
}

// EmacsCommand runs Lisp with f open. Below /tmp emacs would make no backups by
// itself.
func EmacsCommand(code string) string {
	return `emacs -Q --batch f --eval '(progn (setq backup-inhibited nil backup-enable-predicate (lambda (name) t)) ` + code + `)'`
}
