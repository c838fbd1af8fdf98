package main

import (
	"database/sql"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

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
