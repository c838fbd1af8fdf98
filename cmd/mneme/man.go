package main

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/alecthomas/kong"

	"mneme/cmd/mneme/app"
)

type manCmd struct{}

func (c *manCmd) Help() string {
	return `Prints the manual page mneme(1), made from the help of all commands.

Example:

    mneme man > mneme.1    (man ./mneme.1 shows it)`
}

func (c *manCmd) Run(a *app.App, parsed *kong.Context) error {
	application := parsed.Model
	a.Printf(".TH MNEME 1 \"\" \"mneme %s\"\n", roff(app.Version()))
	a.Printf(".SH NAME\nmneme \\- versioned memory stores for AI agents, mounted as directories\n")
	a.Printf(".SH SYNOPSIS\n.B mneme\n.I command\n[\\fIflags\\fR]\n.SH DESCRIPTION\n")
	manText(a, application.Help)
	a.Printf(".SH FLAGS OF ALL COMMANDS\n")
	manFlags(a, application.Node)
	a.Printf(".SH COMMANDS\n")
	for _, leaf := range application.Leaves(true) {
		a.Printf(".SS %s\n", roff("mneme "+leaf.Summary()))
		manText(a, leaf.Help)
		manText(a, leaf.Detail)
		for _, argument := range leaf.Positional {
			a.Printf(".TP\n\\fI%s\\fR\n%s\n", roff(argument.Name), roff(argument.Help))
		}
		manFlags(a, leaf)
	}
	return nil
}

// manText writes paragraphs. It keeps indented lines.
func manText(a *app.App, text string) {
	for paragraph := range strings.SplitSeq(strings.TrimSpace(text), "\n\n") {
		switch {
		case paragraph == "":
		case strings.HasPrefix(paragraph, "    "):
			a.Printf(".PP\n.nf\n%s\n.fi\n", roff(paragraph))
		default:
			a.Printf(".PP\n%s\n", roff(paragraph))
		}
	}
}

func manFlags(a *app.App, node *kong.Node) {
	for _, flag := range node.Flags {
		if flag.Hidden || flag.Name == "help" && node.Parent != nil {
			continue
		}
		name := "--" + flag.Name
		if flag.Short != 0 {
			name = "-" + string(flag.Short) + ", " + name
		}
		if !flag.IsBool() {
			name += "=" + flag.FormatPlaceHolder()
		}
		a.Printf(".TP\n\\fB%s\\fR\n%s\n", roff(name), roff(flag.Help))
	}
}

// roff escapes text for a manual page, see groff_man(7).
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`, "'", `\(aq`, "`", "\\`").Replace(text)
	var ascii strings.Builder
	for _, r := range text {
		if r < utf8.RuneSelf {
			ascii.WriteRune(r)
		} else {
			fmt.Fprintf(&ascii, `\[u%04X]`, r)
		}
	}
	lines := strings.Split(ascii.String(), "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, ".") {
			lines[i] = `\&` + line
		}
	}
	return strings.Join(lines, "\n")
}
