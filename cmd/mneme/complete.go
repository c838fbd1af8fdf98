package main

import (
	"context"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"mneme/backend"
	"mneme/cmd/mneme/app"
	"mneme/cmd/mneme/memories"
	"mneme/cmd/mneme/term"
	"mneme/internal/agentdirs"
	"mneme/memory"
)

type completionCmd struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"bash, zsh or fish."`
}

func (c *completionCmd) Help() string {
	return `Prints what makes the shell complete commands, flags, stores and the paths in them.

Examples:

    mneme completion bash > mneme.bash    (source it in ~/.bashrc)
    mneme completion zsh > _mneme         (in a directory of $fpath)
    mneme completion fish > mneme.fish    (in ~/.config/fish/completions)`
}

func (c *completionCmd) Run(a *app.App) error {
	a.Printf("%s", completionScripts[c.Shell])
	return nil
}

// completeCommand is the command for the scripts. Its arguments are the words after mneme
// up to the cursor. The last word, perhaps empty, must be completed. It prints one
// candidate a line. Bash splits words at colons and equals signs, so its script removes the
// part that is there already.
const completeCommand = "__complete"

var completionScripts = map[string]string{
	"bash": `_mneme() {
  local line=${COMP_LINE:0:COMP_POINT} words word
  read -r -a words <<< "$line"
  [[ $line == *[[:space:]] ]] && words+=("")
  word=${words[${#words[@]}-1]}
  local IFS=$'\n'
  COMPREPLY=($("${words[0]}" ` + completeCommand + ` "${words[@]:1}" 2>/dev/null))
  local done=${word%"${word##*[:=]}"}
  COMPREPLY=("${COMPREPLY[@]#"$done"}")
  [[ ${#COMPREPLY[@]} == 1 && ${COMPREPLY[0]} == *[:/] ]] && compopt -o nospace 2>/dev/null
}
complete -o default -F _mneme mneme
`,
	"zsh": `#compdef mneme
_mneme() {
  local -a candidates
  candidates=("${(@f)$("${words[1]}" ` + completeCommand + ` "${(@)words[2,CURRENT]}" 2>/dev/null)}")
  candidates=(${candidates:#})
  (( $#candidates )) || { _files; return }
  compadd -S '' -- ${(M)candidates:#*[:/]}
  compadd -- ${candidates:#*[:/]}
}
compdef _mneme mneme
`,
	"fish": `function __mneme_complete
  set -l words (commandline -opc) (commandline -ct)
  set -l found ($words[1] ` + completeCommand + ` $words[2..-1] 2>/dev/null)
  if set -q found[1]
    printf '%s\n' $found
  else
    __fish_complete_path (commandline -ct)
  end
end
complete -c mneme -f -a '(__mneme_complete)'
`,
}

// completePatience limits the time for the stores: a person waits at a prompt.
const completePatience = 2 * time.Second

// complete prints candidates for the last word. It never fails, but may print none.
func complete(ctx context.Context, a *app.App, parser *kong.Kong, words []string) {
	ctx, cancel := context.WithTimeout(ctx, completePatience)
	defer cancel()
	if len(words) == 0 {
		return
	}
	if url, ok := os.LookupEnv(app.URLVariable); ok {
		a.URL = &url
	}
	word := words[len(words)-1]
	for _, candidate := range candidates(ctx, a, parser.Model.Node, words[:len(words)-1], word) {
		// A shell could interpret unquoted text in any way.
		if strings.HasPrefix(candidate, word) && term.ShellWord(candidate) == candidate {
			a.Printf("%s\n", candidate)
		}
	}
}

func candidates(ctx context.Context, a *app.App, node *kong.Node, before []string, word string) []string {
	var pending *kong.Flag // whose value comes next
	argument := 0
	for _, w := range before {
		switch child := childNamed(node, w); {
		case pending != nil:
			noteFlag(a, pending, w)
			pending = nil
		case strings.HasPrefix(w, "-"):
			name, value, has := strings.Cut(w, "=")
			if flag := flagNamed(node, name); flag != nil && has {
				noteFlag(a, flag, value)
			} else if flag != nil && !flag.IsBool() {
				pending = flag
			}
		case child != nil:
			node = child
		default:
			argument++
		}
	}
	switch name, value, has := strings.Cut(word, "="); {
	case pending != nil:
		return values(ctx, a, pending.Value, word)
	case strings.HasPrefix(word, "-") && has:
		var both []string
		if flag := flagNamed(node, name); flag != nil {
			for _, v := range values(ctx, a, flag.Value, value) {
				both = append(both, name+"="+v)
			}
		}
		return both
	case strings.HasPrefix(word, "-"):
		return flagNames(node)
	case len(node.Children) > 0:
		return commandNames(node)
	case len(node.Positional) == 0:
		return nil
	}
	return values(ctx, a, node.Positional[min(argument, len(node.Positional)-1)], word)
}

// noteFlag remembers the URL of the stores.
func noteFlag(a *app.App, flag *kong.Flag, value string) {
	if flag.Name == "url" {
		a.URL = &value
	}
}

func childNamed(node *kong.Node, name string) *kong.Node {
	for _, child := range node.Children {
		if child.Name == name {
			return child
		}
	}
	return nil
}

func flagNamed(node *kong.Node, name string) *kong.Flag {
	for _, group := range node.AllFlags(true) {
		for _, flag := range group {
			if "--"+flag.Name == name || flag.Short != 0 && "-"+string(flag.Short) == name {
				return flag
			}
		}
	}
	return nil
}

func flagNames(node *kong.Node) []string {
	var names []string
	for _, group := range node.AllFlags(true) {
		for _, flag := range group {
			names = append(names, "--"+flag.Name)
		}
	}
	slices.Sort(names)
	return names
}

func commandNames(node *kong.Node) []string {
	var names []string
	for _, child := range node.Children {
		if !child.Hidden {
			names = append(names, child.Name)
		}
	}
	return names
}

// values returns the values of an argument or a flag, as far as its name tells.
func values(ctx context.Context, a *app.App, v *kong.Value, word string) []string {
	if v.Enum != "" {
		return v.EnumSlice()
	}
	switch v.Name {
	case "store", "store[:ro]":
		return storeNames(ctx, a, "")
	case "agent|dir":
		return agentdirs.Agents()
	case "place", "from", "to", "what":
		if store, path, has := strings.Cut(word, ":"); has {
			return pathsBelow(ctx, a, store, path)
		}
		if !app.LooksLikePath(word) {
			return storeNames(ctx, a, ":")
		}
	}
	return nil
}

func storeNames(ctx context.Context, a *app.App, suffix string) (names []string) {
	_ = a.WithLibrary(ctx, app.Reading, func(lib *backend.Library) error {
		stores, err := lib.Stores(ctx)
		for _, s := range stores {
			names = append(names, s.Slug+suffix)
		}
		return err
	})
	return names
}

// pathsBelow returns the paths in the directory of an incomplete path.
func pathsBelow(ctx context.Context, a *app.App, store, path string) (places []string) {
	dir := path[:strings.LastIndex(path, "/")+1]
	p, err := app.ParseDir(store + ":" + max(dir, "/"))
	if err != nil {
		return nil
	}
	_ = a.WithPlace(ctx, p, app.Reading, func(st *memory.Store) error {
		entries, err := (&memories.LsCmd{}).Entries(ctx, st, p)
		for _, e := range entries {
			places = append(places, store+":"+max(dir, "/")+e.Name)
		}
		return err
	})
	return places
}
