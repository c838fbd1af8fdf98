package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"golang.org/x/term"

	"mneme/internal/quote"
)

// page runs do with its output going through the user's pager, if standard
// output is a terminal: $PAGER, or less, which ends by itself where all fits on
// the screen. While that runs, Ctrl-C is for it alone.
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
	interrupts := make(chan os.Signal, 1)
	signal.Notify(interrupts, os.Interrupt)
	if err := cmd.Start(); err != nil {
		signal.Stop(interrupts)
		return err
	}
	ended := make(chan error, 1)
	go func() {
		err := cmd.Wait()
		signal.Stop(interrupts) // whatever do still waits for can be ended then
		ended <- err
	}()
	stdout := a.out
	a.out = bufio.NewWriter(in)
	err = do()
	// A pager that was left early has closed its end; that is no error, and ends the work.
	if flushErr := a.out.Flush(); errors.Is(flushErr, syscall.EPIPE) && errors.Is(err, syscall.EPIPE) {
		err = nil
	}
	_ = in.Close()
	a.out = stdout
	if pagerErr := <-ended; pagerErr != nil {
		err = errors.Join(err, fmt.Errorf("pager %s: %w; PAGER names it, and PAGER=cat does without", quote.Text(pager), pagerErr))
	}
	return err
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
