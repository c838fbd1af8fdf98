package term

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

// Page runs do with its output going through the user's pager, if standard output is a
// terminal. The pager is $PAGER, or less, which exits at once if the output fits on the
// screen. While the pager runs, only the pager receives Ctrl-C.
func (c *Console) Page(do func() error) error {
	pager := os.Getenv("PAGER")
	if pager == "" {
		pager = "less"
	}
	if !c.IsTerminal || c.JSON || pager == "cat" {
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
	if err := c.Out.Flush(); err != nil {
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
		signal.Stop(interrupts) // so that Ctrl-C can end do
		ended <- err
	}()
	stdout := c.Out
	c.Out = bufio.NewWriter(in)
	err = do()
	// If a person leaves the pager early, it closes its end. That ends the work without an
	// error.
	if flushErr := c.Out.Flush(); errors.Is(flushErr, syscall.EPIPE) && errors.Is(err, syscall.EPIPE) {
		err = nil
	}
	_ = in.Close()
	c.Out = stdout
	if pagerErr := <-ended; pagerErr != nil {
		err = errors.Join(err, fmt.Errorf("pager %s: %w; PAGER names it, and PAGER=cat does without", quote.Text(pager), pagerErr))
	}
	return err
}

// columns is the width of the terminal; 0 is unbounded.
func (c *Console) columns() int {
	if !c.IsTerminal {
		return 0
	}
	width, _, err := term.GetSize(c.Stdout)
	if err != nil || width < 1 {
		return 0
	}
	return width
}
