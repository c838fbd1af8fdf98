package main

import (
	"bufio"
	"errors"
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/term"
)

// page runs do with its output going through the user's pager, if standard
// output is a terminal: $PAGER, or less, which ends by itself where all fits on
// the screen.
func (a *app) page(do func() error) error {
	pager := os.Getenv("PAGER")
	if pager == "" {
		pager = "less"
	}
	if !a.terminal || a.json || pager == "cat" {
		return do()
	}
	cmd := exec.Command("sh", "-c", pager)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.Env = os.Environ()
	if os.Getenv("LESS") == "" {
		cmd.Env = append(cmd.Env, "LESS=FRX")
	}
	if _, err := exec.LookPath(pager); err != nil && os.Getenv("PAGER") == "" {
		return do()
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	if err := a.out.Flush(); err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	stdout := a.out
	a.out = bufio.NewWriter(in)
	err = do()
	// A pager that was left early has closed its end; that is no error, and ends the work.
	if flushErr := a.out.Flush(); errors.Is(flushErr, syscall.EPIPE) && errors.Is(err, syscall.EPIPE) {
		err = nil
	}
	_ = in.Close()
	a.out = stdout
	return errors.Join(err, cmd.Wait())
}

// columns is how wide lines may be; 0 is unbounded.
func (a *app) columns() int {
	if !a.terminal {
		return 0
	}
	width, _, err := term.GetSize(a.stdout)
	if err != nil || width < 1 {
		return 0
	}
	return width
}
