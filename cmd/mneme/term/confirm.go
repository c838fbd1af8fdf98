package term

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"

	"golang.org/x/term"

	"mneme/errkind"
	"mneme/internal/quote"
)

// Confirm returns nil if the person at the terminal types word. sentence says what happens
// then. Without a terminal, Confirm returns an error that asks for --yes.
func (c *Console) Confirm(sentence, word string) error {
	if !term.IsTerminal(int(c.In.Fd())) {
		return errkind.Wrap(errkind.Invalid, fmt.Errorf("%s; --yes says that you want it", sentence))
	}
	if _, err := fmt.Fprintf(c.Err, "%s.\nType %s to go on: ", quote.Text(sentence), quote.Text(word)); err != nil {
		return err
	}
	answer, err := bufio.NewReader(c.In).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if strings.TrimSpace(answer) != word {
		return fmt.Errorf("%q is not %q; nothing was changed", strings.TrimSpace(answer), word)
	}
	return nil
}
