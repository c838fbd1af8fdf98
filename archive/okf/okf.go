// Package okf makes a bundle of the Open Knowledge Format, version 0.2, from a store's
// memories: Markdown with front matter that has the type, author and time of a document, an
// index of each directory, and a log.
package okf

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/token"

	"mneme/internal/quote"
	"mneme/memory"
	"mneme/versionlog"
)

// Version is the version of the format.
const Version = "0.2"

// Type is the type of a document whose memory names none.
const Type = "Memory"

// The names that the format reserves in every directory.
const (
	indexName = "index.md"
	logName   = "log.md"
)

// Bundle is a bundle in the making: Add takes in each memory, and Rest makes what is beside
// them. The same store is the same bundle.
type Bundle struct {
	title string
	taken map[string]bool // names of memories, without the slash before them
	dirs  map[string]*directory
}

// directory is what the index of a directory lists, by name.
type directory struct {
	documents map[string]item
	subs      map[string]bool
}

type item struct{ title, description string }

// New begins the bundle of a store that has memories at these paths.
func New(title string, paths []string) *Bundle {
	b := &Bundle{title: title, taken: map[string]bool{}, dirs: map[string]*directory{}}
	for _, p := range paths {
		b.taken[quote.GitPath(p)] = true
	}
	b.dir(".")
	return b
}

// Name returns under which name a memory is in the bundle: its own, but for names of git's, Markdown whose
// name the format reserves, and for Markdown that is no text.
func (b *Bundle) Name(p string, text bool) string {
	name := quote.GitPath(p)
	suffix := ""
	switch base := path.Base(name); {
	case strings.HasSuffix(name, ".md") && !text:
		suffix = ".bin"
	case base == indexName || base == logName:
		name, suffix = strings.TrimSuffix(name, ".md"), ".memory.md"
	default:
		return name
	}
	for n := 1; ; n++ {
		free := name + suffix
		if n > 1 {
			free = fmt.Sprintf("%s-%d%s", name, n, suffix)
		}
		if !b.taken[free] {
			b.taken[free] = true
			return free
		}
	}
}

// Add returns the name and the bytes of a memory in the bundle. Markdown has front matter with
// a type there: its own, if that is YAML and names one, with one line more if it names none,
// or else another one before it. Everything else is as it is.
func (b *Bundle) Add(v versionlog.Version, data []byte) (string, []byte) {
	text := utf8.Valid(data)
	name := b.Name(v.Path, text)
	dir, base := path.Split(name)
	in := b.dir(path.Clean(dir))
	about := item{title: base}
	if strings.HasSuffix(name, ".md") {
		about.title = strings.TrimSuffix(base, ".md")
		data = document(v, data, &about)
	}
	in.documents[base] = about
	return name, data
}

// maxMatter is how much front matter is read as YAML, in bytes.
const maxMatter = 64 << 10

// hasAlias reports whether YAML repeats a node by its name, so that a small text can stand for a
// huge one.
func hasAlias(matter []byte) bool {
	return slices.ContainsFunc(lexer.Tokenize(string(matter)), func(t *token.Token) bool { return t.Type == token.AliasType })
}

// document makes a concept document of Markdown.
func document(v versionlog.Version, data []byte, about *item) []byte {
	fence, matter, found := frontMatter(data)
	if found && !isDeep(matter) && !hasAlias(matter) {
		fields := map[string]any{}
		if yaml.Unmarshal(matter, &fields) == nil && len(fields) > 0 {
			for name, to := range map[string]*string{"title": &about.title, "description": &about.description} {
				if text, is := fields[name].(string); is && strings.TrimSpace(text) != "" {
					*to = strings.Join(strings.Fields(text), " ")
				}
			}
			kind, typed := fields["type"]
			if text, is := kind.(string); is && text != "" {
				return data
			}
			indent := matter[:len(matter)-len(bytes.TrimLeft(matter, " "))]
			line := slices.Concat(indent, []byte("type: "+Type), fence[len(bytes.TrimRight(fence, "\r\n")):])
			more := map[string]any{}
			if !typed && yaml.Unmarshal(slices.Concat(line, matter), &more) == nil && len(more) == len(fields)+1 && more["type"] == Type {
				return slices.Concat(fence, line, data[len(fence):])
			}
		}
	}
	return slices.Concat(fmt.Appendf(nil, "---\ntype: %s\ngenerated: { by: %q, at: %s }\n---\n\n", Type, actor(v.Actor), v.Time.UTC().Format(time.RFC3339)), data)
}

// frontMatter returns the line that begins the front matter of a document, with the mark of
// UTF-8 before it, and what is between that and the line that ends it. Lines end as on any
// system.
func frontMatter(data []byte) (fence, matter []byte, found bool) {
	rest := bytes.TrimPrefix(data, []byte("\ufeff"))
	at := len(data) - len(rest)
	for line := range bytes.Lines(rest) {
		isFence := string(bytes.TrimRight(line, "\r\n")) == "---"
		switch {
		case fence == nil && !isFence || at-len(fence) > maxMatter:
			return nil, nil, false
		case fence == nil:
			fence = data[:at+len(line)]
		case isFence:
			matter = data[len(fence):at]
			return fence, matter, len(matter) > 0
		}
		at += len(line)
	}
	return nil, nil, false
}

// actor is the author of a version as the format names actors.
func actor(a versionlog.Actor) string {
	id := quote.Text(a.ID)
	switch a.Kind {
	case versionlog.ActorUser:
		return "human:" + id
	case versionlog.ActorSession:
		return "session/" + id
	}
	return "process:" + id
}

// dir returns a directory of the bundle, which those above it list.
func (b *Bundle) dir(name string) *directory {
	d := b.dirs[name]
	if d == nil {
		d = &directory{documents: map[string]item{}, subs: map[string]bool{}}
		b.dirs[name] = d
		if name != "." {
			b.dir(path.Dir(name)).subs[path.Base(name)] = true
		}
	}
	return d
}

// Rest returns the indexes and the log of the bundle by their names, once every memory is
// added. The log has the changes of the store's history, without the paths that were
// redacted.
func (b *Bundle) Rest(ctx context.Context, st *memory.Store) (map[string][]byte, error) {
	files := map[string][]byte{}
	for name, d := range b.dirs {
		files[path.Join(name, indexName)] = b.index(name, d)
	}
	log, err := b.log(ctx, st)
	files[logName] = log
	return files, err
}

func (b *Bundle) index(name string, d *directory) []byte {
	var out bytes.Buffer
	title := path.Base(name)
	if name == "." {
		title = b.title
		fmt.Fprintf(&out, "---\nokf_version: %q\n---\n\n", Version)
	}
	fmt.Fprintf(&out, "# %s\n\n", plain(title))
	for _, base := range slices.Sorted(maps.Keys(d.documents)) {
		about := d.documents[base]
		fmt.Fprintf(&out, "* [%s](%s)", plain(about.title), url.PathEscape(base))
		if about.description != "" {
			fmt.Fprintf(&out, " - %s", plain(about.description))
		}
		out.WriteByte('\n')
	}
	for _, sub := range slices.Sorted(maps.Keys(d.subs)) {
		fmt.Fprintf(&out, "* [%s](%s/)\n", plain(sub), url.PathEscape(sub))
	}
	return out.Bytes()
}

// log is the history, the newest day and in it the newest change first.
func (b *Bundle) log(ctx context.Context, st *memory.Store) ([]byte, error) {
	var out bytes.Buffer
	fmt.Fprintf(&out, "# %s\n", plain(b.title))
	day := ""
	for c, err := range st.CommitsBefore(ctx, 0, versionlog.Filter{}) {
		if err != nil {
			return nil, err
		}
		for i := range c.Versions {
			v := &c.Versions[i]
			if v.IsDir() || v.Redacted() {
				continue
			}
			if on := c.Time.UTC().Format(time.DateOnly); on != day {
				day = on
				fmt.Fprintf(&out, "\n## %s\n", day)
			}
			what := map[versionlog.Op]string{versionlog.OpCreated: "Creation", versionlog.OpModified: "Update", versionlog.OpRenamed: "Rename", versionlog.OpDeleted: "Deletion"}[v.Op]
			fmt.Fprintf(&out, "* **%s**: %s", what, plain(v.Path))
			if v.From != "" {
				fmt.Fprintf(&out, ", before %s", plain(v.From))
			}
			fmt.Fprintf(&out, ", by %s", plain(actor(v.Actor)))
			if v.Message != "" {
				fmt.Fprintf(&out, ": %s", plain(v.Message))
			}
			out.WriteByte('\n')
		}
	}
	return out.Bytes(), nil
}

// plain is a text in one line of Markdown that is nothing but text.
func plain(text string) string {
	var out strings.Builder
	for _, r := range quote.Text(text) {
		if strings.ContainsRune("\\`*_[]<>#|", r) {
			out.WriteByte('\\')
		}
		out.WriteRune(r)
	}
	return out.String()
}
