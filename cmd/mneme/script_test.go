package main

import (
	"context"
	"database/sql"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	_ "github.com/ncruces/go-sqlite3/driver" // as sqlite3
	"github.com/rogpeppe/go-internal/testscript"
)

// TestMain lets the scripts run this binary as mneme.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"mneme": main})
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(env *testscript.Env) error {
			fixtures, err := filepath.Abs("testdata")
			if err != nil {
				return err
			}
			home := env.WorkDir + "/home"
			env.Vars = append(env.Vars, "FIXTURES="+fixtures, "HOME="+home, "DATA="+home+"/.local/share/mneme", "TZ=UTC",
				"GORACE=atexit_sleep_ms=0") // under -race every process would wait a second before it ends
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"ask":     ask,
			"exits":   exits,
			"capture": capture,
			"fill":    fill,
			"sql":     runSQL,
		},
	})
}

// exits CODE COMMAND... runs a command that must end with that exit code.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits code command [args...]")
	}
	code := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			ts.Fatalf("%v", err)
		}
		code = exit.ExitCode()
	}
	if want := args[0]; strconv.Itoa(code) != want {
		ts.Fatalf("exit code %d, want %s", code, want)
	}
}

// ask STATUS METHOD PATH [KEY] makes a request to the server at the socket s.sock until the status
// is that: the server begins, and follows what other processes change, in its own time.
func ask(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 3 || len(args) > 4 {
		ts.Fatalf("usage: ask status method path [key]")
	}
	socket := ts.MkAbs("s.sock")
	client := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}}}
	var status string
	var body []byte
	for end := time.Now().Add(time.Minute); status != args[0]; time.Sleep(5 * time.Millisecond) {
		q, err := http.NewRequest(args[1], "http://localhost"+args[2], nil)
		ts.Check(err)
		if len(args) == 4 {
			q.Header.Set("Authorization", "Bearer "+args[3])
		}
		a, err := client.Do(q)
		if err == nil {
			status = strconv.Itoa(a.StatusCode)
			body, err = io.ReadAll(a.Body)
			a.Body.Close()
		}
		if time.Now().After(end) {
			ts.Fatalf("%s %s: %s %s %v", args[1], args[2], status, body, err)
		}
	}
	_, err := ts.Stdout().Write(body)
	ts.Check(err)
}

// capture NAME puts the last standard output, less its line break, into a
// variable.
func capture(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: capture name")
	}
	ts.Setenv(args[0], strings.TrimSuffix(ts.ReadFile("stdout"), "\n"))
}

// sql STATEMENT changes the embedded store's database behind mneme's back. A
// statement that changes rows must find some.
func runSQL(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: sql statement")
	}
	db, err := sql.Open("sqlite3", filepath.Join(ts.Getenv("DATA"), "log.db"))
	ts.Check(err)
	defer db.Close()
	result, err := db.Exec(args[0])
	ts.Check(err)
	n, err := result.RowsAffected()
	ts.Check(err)
	verb, _, _ := strings.Cut(args[0], " ")
	if n == 0 && slices.Contains([]string{"INSERT", "UPDATE", "DELETE"}, verb) {
		ts.Fatalf("%s: no such row", args[0])
	}
}

// fill FILE N writes a file of N times the letter x.
func fill(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: fill file n")
	}
	n, err := strconv.Atoi(args[1])
	ts.Check(err)
	data := strings.Repeat("x", n)
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(data), 0o600))
}
