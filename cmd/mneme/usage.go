package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"mneme/cmd/mneme/app"
)

// Texts of kong about a command line that it does not understand; see
// testdata/script/usage.txtar.
var (
	unexpectedArgument = app.Pattern(`(?s)^unexpected argument (.*?)(?:, did you mean (.*)\?)?$`)
	unknownFlag        = app.Pattern(`(?s)^unknown flag (.*?)(?:, did you mean (.*)\?)?$`)
	missingArgument    = app.Pattern(`^expected "<([^>]+)>`)
	missingValue       = app.Pattern(`(?s)^(--[a-z0-9-]+): expected \S+ value but got "(.*?)" \(`)
	quotedCandidate    = app.Pattern(`"([^"]+)"`)
)

// explainMisuse describes the correct form of a command line that kong refused, and names
// its help.
func explainMisuse(parser *kong.Kong, args []string, err error) error {
	node := parser.Model.Node
	var parse *kong.ParseError
	if errors.As(err, &parse) && parse.Context != nil && parse.Context.Selected() != nil {
		node = parse.Context.Selected()
	}
	text := misuse(parser, node, args, err)
	return app.Usagef("%s; see `%s --help`", text, node.FullPath())
}

// misuse describes the mistake for the command that kong had reached.
func misuse(parser *kong.Kong, node *kong.Node, args []string, err error) string {
	text := err.Error()
	if m := unexpectedArgument().FindStringSubmatch(text); m != nil {
		if len(node.Children) == 0 {
			return fmt.Sprintf("%q is an argument too many; want `mneme %s`", m[1], node.Summary())
		}
		return fmt.Sprintf("%s has no command %q%s", node.FullPath(), m[1], didYouMean(m[1], m[2]))
	}
	if m := unknownFlag().FindStringSubmatch(text); m != nil {
		return fmt.Sprintf("%s has no flag %s%s", node.FullPath(), m[1], didYouMean(m[1], m[2]))
	}
	if m := missingArgument().FindStringSubmatch(text); m != nil {
		for _, argument := range node.Positional {
			if argument.Name == m[1] {
				return fmt.Sprintf("<%s> is missing: %s", m[1], strings.TrimSuffix(argument.Help, "."))
			}
		}
	}
	if m := missingValue().FindStringSubmatch(text); m != nil {
		return missing(parser, args, m[1], m[2])
	}
	return text
}

// didYouMean returns those of kong's candidates that begin like the written word.
func didYouMean(written, candidates string) string {
	var close []string
	begin := strings.TrimLeft(written, "-")
	for _, m := range quotedCandidate().FindAllStringSubmatch(candidates, -1) {
		if name := strings.TrimLeft(m[1], "-"); len(name) > 1 && begin != "" && name[0] == begin[0] {
			close = append(close, m[1])
		}
	}
	if close == nil {
		return ""
	}
	return ", did you mean " + strings.Join(close, " or ") + "?"
}

// missing explains that a flag got no value, or one that begins with a hyphen and looks
// like another flag. An equals sign before the value avoids that.
func missing(parser *kong.Kong, args []string, flag, value string) string {
	i := slices.Index(args, value)
	if i < 1 || value == "EOL" && i < 0 {
		return flag + ": the value is missing"
	}
	if strings.HasPrefix(value, "--") {
		return fmt.Sprintf("%s: the value is missing, %s is a flag", flag, value)
	}
	joined := slices.Concat(args[:i-1], []string{flag + "=" + value}, args[i+1:])
	if _, err := parser.Parse(joined); err != nil && strings.HasPrefix(err.Error(), flag+": ") {
		return err.Error()
	}
	return fmt.Sprintf("%s: a value that begins with a hyphen is given as %s=%s", flag, flag, value)
}
