package bench

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"mneme/tests/harness"
)

// mcpServer is a server of the Model Context Protocol that gives an agent a memory, and the
// requests that it has for the things that an agent does. It does not have a request that is "".
type mcpServer struct {
	name    string
	command []string
	slow    bool // it reads all that it has for every call

	read, list, search func(i int) string
	update             func(writer string, n int) string // adds the line "writer n" to a file
	updated            func() (string, error)            // what is in that file
	shared             []string                          // the command for updates, if it is another
}

// mcpCall is a line that calls a tool.
func mcpCall(tool string, fields ...any) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":%q,"arguments":%s}}`, tool, toolInput(fields...))
}

// mark ends the file to which updates add lines.
const mark = "the end\n"

func line(writer string, n int) string { return fmt.Sprintf("%s %d\n", writer, n) }

// servers are ours and those of npm, which have the same texts on ext4.
func (r *report) servers(node harness.Node) []mcpServer {
	return []mcpServer{r.ours(), r.filesystem(node), r.knowledge(node)}
}

func (r *report) ours() mcpServer {
	r.env.MustIn(r.B, mark, "write", "notes:/updates.md")
	return mcpServer{
		name:    "`mneme mcp`",
		command: []string{harness.Binary, "mcp", "--store=notes"},
		read:    func(i int) string { return mcpCall("memory", "command", "view", "path", "/memories/"+r.anyNote(i)) },
		list:    func(int) string { return mcpCall("memory", "command", "view", "path", "/memories") },
		search:  func(i int) string { return mcpCall("search", "query", r.anyNote(i)) },
		update: func(writer string, n int) string {
			return mcpCall("memory", "command", "str_replace", "path", "/memories/updates.md", "old_str", mark, "new_str", line(writer, n)+mark)
		},
		updated: func() (string, error) { return r.env.Must(r.B, "cat", "notes:/updates.md"), nil },
	}
}

// filesystem is npm's server-filesystem. It searches names only.
func (r *report) filesystem(node harness.Node) mcpServer {
	dir := newDir(r.B, r.env, "files-")
	for i := range r.files {
		path := filepath.Join(dir, noteAt(i))
		r.must(os.MkdirAll(filepath.Dir(path), 0o755))
		r.must(os.WriteFile(path, []byte(noteText(noteAt(i))), 0o600))
	}
	updates := filepath.Join(dir, "updates.md")
	r.must(os.WriteFile(updates, []byte(mark), 0o600))
	return mcpServer{
		name:    "server-filesystem",
		command: []string{node.Program, filepath.Join(node.Modules, "@modelcontextprotocol", "server-filesystem", "dist", "index.js"), dir},
		read:    func(i int) string { return mcpCall("read_text_file", "path", filepath.Join(dir, r.anyNote(i))) },
		list:    func(int) string { return mcpCall("directory_tree", "path", dir) },
		search: func(i int) string {
			return mcpCall("search_files", "path", dir, "pattern", "**/"+filepath.Base(r.anyNote(i)))
		},
		update: func(writer string, n int) string {
			return mcpCall("edit_file", "path", updates, "edits", []any{map[string]string{"oldText": mark, "newText": line(writer, n) + mark}})
		},
		updated: func() (string, error) {
			data, err := os.ReadFile(updates)
			return string(data), err
		},
	}
}

// knowledge is npm's server-memory: an entity is a note. It cannot list without showing all.
func (r *report) knowledge(node harness.Node) mcpServer {
	type entity struct {
		Type         string   `json:"type"`
		Name         string   `json:"name"`
		EntityType   string   `json:"entityType"`
		Observations []string `json:"observations"`
	}
	dir := newDir(r.B, r.env, "knowledge-")
	write := func(name string, entities []entity) string {
		var lines []string
		for _, e := range entities {
			data, err := json.Marshal(e)
			r.must(err)
			lines = append(lines, string(data))
		}
		path := filepath.Join(dir, name)
		r.must(os.WriteFile(path, []byte(strings.Join(lines, "\n")), 0o600))
		return path
	}
	var all []entity
	for i := range r.files {
		all = append(all, entity{"entity", noteAt(i), "note", []string{noteText(noteAt(i))}})
	}
	updates := entity{"entity", "updates.md", "note", []string{}}
	shared := write("shared.jsonl", []entity{updates})
	command := func(path string) []string {
		program := filepath.Join(node.Modules, "@modelcontextprotocol", "server-memory", "dist", "index.js")
		return []string{"env", "MEMORY_FILE_PATH=" + path, node.Program, program}
	}
	return mcpServer{
		name:    "server-memory",
		command: command(write("memory.jsonl", append(all, updates))),
		slow:    true,
		shared:  command(shared),
		read:    func(i int) string { return mcpCall("open_nodes", "names", []string{r.anyNote(i)}) },
		search:  func(i int) string { return mcpCall("search_nodes", "query", r.anyNote(i)) },
		update: func(writer string, n int) string {
			return mcpCall("add_observations", "observations", []any{map[string]any{"entityName": "updates.md", "contents": []string{strings.TrimSpace(line(writer, n))}}})
		},
		updated: func() (string, error) {
			data, err := os.ReadFile(shared)
			if err != nil {
				return "", err
			}
			var e entity
			err = json.Unmarshal(data, &e)
			return strings.Join(e.Observations, "\n") + "\n", err
		},
	}
}

// client is a client of a server.
type client struct{ *harness.Lines }

// connect starts a server, and returns when it has answered its first request.
func (r *report) connect(command []string) client {
	l := r.env.Lines(r.B, command[0], command[1:]...)
	l.Ask(r.B, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}`)
	return client{l}
}

// ready tells the server that the client has understood.
func (c client) ready() client {
	_ = c.Tell(`{"jsonrpc":"2.0","method":"notifications/initialized"}`) // a server that is gone does not answer the next
	return c
}

var errRefused = errors.New("the server has refused")

// call has a tool called.
func (c client) call(request string) error {
	answer, err := c.Try(request)
	if err == nil && (strings.Contains(answer, `"isError":true`) || !strings.Contains(answer, `"result":`)) {
		err = fmt.Errorf("%w: %.300s", errRefused, answer)
	}
	return err
}

// serverStarts times from the start of each server to its first answer.
func (r *report) serverStarts(all []mcpServer) {
	took := timings{}
	for range r.rounds {
		for _, s := range all {
			began := time.Now()
			c := r.connect(s.command)
			took.add("start", s.name, time.Since(began))
			c.End(r.B)
		}
	}
	r.serverRow("start to first answer, ms", all, took["start"])
	ours := took["start"][all[0].name]
	r.target("`mneme mcp`, start to first answer", ours, 50, " ms")
}

// serverRow compares a series of each server: median, spread, and times ours.
func (r *report) serverRow(what string, all []mcpServer, got map[string]series) {
	header, row := []string{"what"}, []string{what}
	for _, s := range all {
		header = append(header, s.name)
		cell := got[s.name].withSpread()
		if s.name != all[0].name && len(got[s.name]) > 0 {
			cell += fmt.Sprintf(", **%s×**", figure(got[s.name].median()/got[all[0].name].median()))
		}
		row = append(row, cell)
	}
	r.table("servers", header...).row(row...)
}

// target adds a row to the table of our promises.
func (r *report) target(what string, got series, limit float64, unit string) {
	verdict := r.goal(what, got.median(), got.least(), floor{}, limit, unit)
	r.table("targets", "what", "median (least–most)", "target", "met").row(what, got.withSpread()+unit, verdict[0], verdict[1])
}

// serverCalls times the same calls over each server, in turns.
func (r *report) serverCalls(all []mcpServer) {
	var clients []client
	for _, s := range all {
		clients = append(clients, r.connect(s.command).ready())
	}
	for _, kind := range []struct {
		name    string
		often   int
		request func(mcpServer) func(i int) string
	}{
		{"read a note, ms", 100, func(s mcpServer) func(int) string { return s.read }},
		{"update a file, ms", 50, func(s mcpServer) func(int) string { return func(i int) string { return s.update("timed", i) } }},
		{"list all, ms", 5, func(s mcpServer) func(int) string { return s.list }},
		{"search, ms", 3, func(s mcpServer) func(int) string { return s.search }},
	} {
		got := map[string]series{}
		for round := range r.rounds + 1 { // the first only warms
			for which, s := range all {
				request, often := kind.request(s), r.either(kind.often, 3)
				if s.slow {
					often = min(often, 2)
				}
				if request == nil {
					continue
				}
				if took := r.timeRequests(clients[which], request, round*often, often); round > 0 {
					got[s.name] = append(got[s.name], took.median())
				}
			}
		}
		r.serverRow(kind.name, all, got)
	}
	for _, c := range clients {
		c.End(r.B)
	}
}

// timeRequests times so many requests, in ms, the first of which is that of from.
func (r *report) timeRequests(c client, request func(int) string, from, often int) (took series) {
	for i := range often {
		line := request(from + i)
		began := time.Now()
		err := c.call(line)
		took = append(took, float64(time.Since(began).Nanoseconds())/1e6)
		r.must(err)
	}
	return took
}

// serverMemory measures each server's resident memory after it has listed and searched.
func (r *report) serverMemory(all []mcpServer) {
	got, most := map[string]series{}, map[string]series{}
	for range 3 {
		for _, s := range all {
			c := r.connect(s.command).ready()
			if s.list != nil {
				r.must(c.call(s.list(0)))
			}
			r.must(c.call(s.search(1)))
			r.must(c.call(s.search(2)))
			got[s.name] = append(got[s.name], megabytes(r.B, c.PID, "VmRSS"))
			most[s.name] = append(most[s.name], megabytes(r.B, c.PID, "VmHWM"))
			c.End(r.B)
		}
	}
	r.serverRow("resident after list and search, MB", all, got)
	r.serverRow("resident at most, MB", all, most)
	r.target("`mneme mcp`, resident after list and search", got[all[0].name], 60, " MB")
}

// lostUpdates has two clients add lines to one file at once, each by a server process of its own,
// and counts those that were acknowledged and are not there.
func (r *report) lostUpdates(all []mcpServer) {
	updates := r.either(200, 20)
	t := r.table("lost", fmt.Sprintf("2 writers × %d updates of one file", updates), "acknowledged", "refused", "lost")
	for _, s := range all {
		acknowledged, refused := r.race(s, updates)
		text, err := s.updated()
		r.must(err)
		lost := 0
		for _, line := range acknowledged {
			if !strings.Contains("\n"+text, "\n"+line) {
				lost++
			}
		}
		t.row(s.name, fmt.Sprint(len(acknowledged)), fmt.Sprint(refused), fmt.Sprint(lost))
		if s.name == all[0].name && lost+refused > 0 {
			r.miss("updates lost by `mneme mcp`", fmt.Sprintf("%d were lost, %d refused; the target is 0.", lost, refused))
		}
	}
}

// race makes the updates of two writers, and returns the lines that were acknowledged, and how
// many updates were refused.
func (r *report) race(s mcpServer, updates int) (acknowledged []string, refused int) {
	command := s.command
	if s.shared != nil {
		command = s.shared
	}
	clients := map[string]client{"anna": r.connect(command).ready(), "bert": r.connect(command).ready()}
	var writers sync.WaitGroup
	var mu sync.Mutex
	for name, c := range clients {
		writers.Go(func() {
			for n := range updates {
				err := c.call(s.update(name, n))
				mu.Lock()
				switch {
				case err == nil:
					acknowledged = append(acknowledged, line(name, n))
				case errors.Is(err, errRefused):
					refused++
				default:
					r.Error(err)
				}
				mu.Unlock()
			}
		})
	}
	writers.Wait()
	for _, c := range clients {
		c.End(r.B)
	}
	return acknowledged, refused
}
