package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"

	"golang.org/x/term"
)

// confirm returns nil when the person at the terminal types word. What goes on
// then is told in one sentence; where there is no terminal, an error says that
// --yes stands for the answer.
func (a *app) confirm(sentence, word string) error {
	if !term.IsTerminal(int(a.in.Fd())) {
		return usagef("%s; --yes says that you want it", sentence)
	}
	if _, err := fmt.Fprintf(a.err, "%s.\nType %s to go on: ", printable(sentence), printable(word)); err != nil {
		return err
	}
	answer, err := bufio.NewReader(a.in).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if strings.TrimSpace(answer) != word {
		return fmt.Errorf("%q is not %q; nothing was changed", strings.TrimSpace(answer), word)
	}
	return nil
}
