package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"mneme/cmd/mneme/app"
	"mneme/cmd/mneme/past"
	"mneme/cmd/mneme/term"
	"mneme/memory"
	"mneme/session/conflict"
	"mneme/versionlog"
)

// onTerminal runs mneme with standard output on a terminal of 80 columns, and
// returns what is written there.
func onTerminal(t *testing.T, env []string, args ...string) string {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer master.Close()
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		err = unix.IoctlSetWinsize(int(master.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 80})
	}
	if err != nil {
		t.Fatal(err)
	}
	terminal, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	cmd := mnemeCommand(t, env, args...)
	cmd.Stdout = terminal
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	terminal.Close()
	var out bytes.Buffer
	_, _ = out.ReadFrom(master) // EIO ends it
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v: %v\n%s", args, err, &out)
	}
	return strings.ReplaceAll(out.String(), "\r\n", "\n")
}

// mnemeCommand is mneme in a process of its own.
func mnemeCommand(t *testing.T, env []string, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "mneme") // what this binary is under that name, see TestMain
	if err := os.Symlink(self, link); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(link, args...)
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "TZ=UTC", "NO_COLOR=1", "GORACE=atexit_sleep_ms=0"}, env...)
	return cmd
}

// TestLogOnTerminal holds that a log on a terminal goes through the pager, has
// the newest only, and fits the lines. Elsewhere nothing is left out.
func TestLogOnTerminal(t *testing.T) {
	url := "file://" + filepath.Join(t.TempDir(), "stores")
	lib, err := app.OpenLibrary(t.Context(), &url, app.Creating)
	if err != nil {
		t.Fatal(err)
	}
	defer lib.Close()
	if _, err := lib.CreateStore(t.Context(), "notes", nil); err != nil {
		t.Fatal(err)
	}
	st, err := app.OpenStore(t.Context(), lib, "notes", app.Writing)
	if err != nil {
		t.Fatal(err)
	}
	path := "/a-directory-of-a-rather-long-name/記録-with-a-long-name-as-well/plan.md"
	for i := range past.Screenful + 20 {
		if _, err := st.Write(t.Context(), path, fmt.Append(nil, i), versionlog.ExpectAny()); err != nil {
			t.Fatal(err)
		}
	}
	env := []string{"MNEME_URL=" + url, "PAGER=sed s/^/paged:/"}
	for _, place := range []string{"notes", "notes:" + path} {
		out := onTerminal(t, env, "log", place)
		lines := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
		if len(lines) != past.Screenful+2 || !strings.HasPrefix(lines[1], "paged:120  ") || !strings.Contains(lines[past.Screenful+1], "--all") {
			t.Errorf("log %s on a terminal has %d lines:\n%s", place, len(lines), out)
		}
		for _, line := range lines {
			if w := term.TextWidth(strings.TrimPrefix(line, "paged:")); w > 80 {
				t.Errorf("a line of log %s takes %d columns: %s", place, w, line)
			}
		}
		if !strings.Contains(out, "/plan.md") && place == "notes" {
			t.Errorf("paths do not end with their names:\n%s", out)
		}
		for _, how := range [][]string{{"--all"}, {"-n", "110"}} {
			out := onTerminal(t, env, append([]string{"log", place}, how...)...)
			if n := strings.Count(out, "modified") + strings.Count(out, "created"); n < 110 || strings.Contains(out, "--all") {
				t.Errorf("log %s %v on a terminal has %d entries", place, how, n)
			}
		}
	}
	if out := onTerminal(t, env, "show", "notes:"+path); !strings.HasPrefix(out, "paged:Version ") {
		t.Errorf("show on a terminal: %s", out)
	}
}

// TestTerminalIsNotSteered holds that what memories, sessions and messages hold
// reaches a terminal as text, by whichever command, with or without a pager; that
// JSON is escaped everywhere; and that a pipe gets the bytes of a memory.
func TestTerminalIsNotSteered(t *testing.T) {
	const hostile = "\x1b]0;x\a\u009b31m\u202e\u200b\u2028\ufeff\U000e0041\u3164"
	const escaped = `\x1b]0;x\a\u009b31m\u202e\u200b\u2028\ufeff\U000e0041\u3164`
	const inJSON = `\u001b]0;x\u0007\u009b31m\u202e\u200b\u2028\ufeff\udb40\udc41\u3164`
	url := "file://" + filepath.Join(t.TempDir(), "stores")
	lib, err := app.OpenLibrary(t.Context(), &url, app.Creating)
	if err != nil {
		t.Fatal(err)
	}
	defer lib.Close()
	info, err := lib.CreateStore(t.Context(), "notes", &memory.StoreOptions{Description: hostile})
	if err != nil {
		t.Fatal(err)
	}
	st, err := lib.Open(t.Context(), info.ID, &memory.Author{Actor: versionlog.Actor{Kind: versionlog.ActorUser, ID: hostile}, Session: hostile})
	if err != nil {
		t.Fatal(err)
	}
	text := "a\tb" + hostile + "\r\nend"
	change := memory.Change{Action: versionlog.Put, Path: "/f", Content: []byte(text), Expect: versionlog.ExpectAny()}
	if _, err := st.Batch(t.Context(), []memory.Change{change}, &memory.CommitOptions{Message: hostile}); err != nil {
		t.Fatal(err)
	}
	kept := lib.Conflicts(info.ID)
	if _, err := kept.Keep(conflict.About{Store: "notes", Path: "/f", Session: hostile, Time: time.Now(), Why: hostile}, conflict.Texts{Yours: []byte(text)}); err != nil {
		t.Fatal(err)
	}
	env := []string{"MNEME_URL=" + url, "PAGER=sed s/^/paged:/", "HOME=" + t.TempDir()}
	for _, args := range [][]string{
		{"cat", "notes:/f"}, {"log", "notes"}, {"log", "notes:/f"}, {"show", "notes:/f"}, {"diff", "notes:/f"}, {"ls", "-l", "notes"},
		{"store", "list"}, {"store", "show", "notes"}, {"conflicts", "list", "notes"}, {"conflicts", "show", "notes", "1"}, {"conflicts", "diff", "notes", "1"},
		{"blame", "notes:/f"}, {"why", "notes", "end"}, {"diff", "notes"}, {"show", "notes", "1"},
		{"log", "notes", "-p"}, {"log", "notes", "--stat"}, {"log", "notes:/f", "-p", "--grep", "end"},
		{"pack", "notes", "--max-bytes", "4000"}, {"pack", "notes", "--max-bytes", "4000", "--since", "0"}, {"note", "notes"},
	} {
		out := onTerminal(t, env, args...)
		if steers := strings.IndexAny(out, "\x1b\a\r\u009b\u202e\u200b\u2028\ufeff\U000e0041\u3164"); steers >= 0 {
			t.Errorf("%v writes %q to a terminal", args, out[steers:])
		}
		wide := args[0] == "log" || args[1] == "list" || args[0] == "ls" // where texts are cut
		if !wide && !strings.Contains(out, escaped) {
			t.Errorf("%v does not show what is there: %q", args, out)
		}
		args = append(args, "--json")
		if out := onTerminal(t, env, args...); strings.ContainsAny(out, "\x1b\a\r\u009b\u202e\u200b\u2028\ufeff\U000e0041\u3164") {
			t.Errorf("%v on a terminal: %q", args, out)
		}
	}
	if out, want := onTerminal(t, env, "cat", "notes:/f"), "a\tb"+escaped+`\r`+"\nend"; out != want {
		t.Errorf("cat on a terminal: %q, want %q", out, want)
	}
	raw := strings.ReplaceAll(text, "\r\n", "\n") // as onTerminal does
	if out := onTerminal(t, env, "cat", "--raw", "notes:/f"); strings.ReplaceAll(out, "\r", "") != raw {
		t.Errorf("cat --raw on a terminal: %q, want %q", out, raw)
	}
	if out, err := mnemeCommand(t, env, "cat", "notes:/f").Output(); err != nil || string(out) != text {
		t.Errorf("cat: %q, %v; want %q", out, err, text)
	}
	if out, err := mnemeCommand(t, env, "cat", "notes:/f", "--json").Output(); err != nil || !strings.Contains(string(out), `"content":"a\tb`+inJSON) {
		t.Errorf("cat --json: %q, %v; want %q in it", out, err, inJSON)
	}
}

// TestPager: Ctrl-C is the pager's while it runs, and one that fails is named.
func TestPager(t *testing.T) {
	url := "MNEME_URL=file://" + filepath.Join(t.TempDir(), "stores")
	if out, err := mnemeCommand(t, []string{url}, "store", "create", "notes").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if out := onTerminal(t, []string{url, "PAGER=kill -INT $PPID && sed s/^/paged:/"}, "log", "notes", "--all"); !strings.HasPrefix(out, "paged:") {
		t.Errorf("after Ctrl-C: %q", out)
	}
	a := app.New(os.Stdin, os.Stdout, os.Stderr)
	a.IsTerminal = true
	t.Setenv("PAGER", "exit 3; less")
	if err := a.Page(func() error { return nil }); err == nil || !strings.Contains(err.Error(), "pager exit 3; less: exit status 3") {
		t.Error(err)
	}
}
