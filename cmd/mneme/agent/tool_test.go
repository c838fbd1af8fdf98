package agent

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"

	"mneme/cmd/mneme/app"
	"mneme/internal/strictjson"
	"mneme/memory"
	"mneme/session"
	"mneme/tools"
)

// serveToolLines answers lines by a Memory of a new store, and returns the answers.
func serveToolLines(t *testing.T, in io.Reader, taken func(toolReply) error) {
	t.Helper()
	url := "file://" + t.TempDir()
	lib, err := app.OpenLibrary(t.Context(), &url, app.Creating)
	if err != nil {
		t.Fatal(err)
	}
	defer lib.Close()
	info, err := lib.CreateStore(t.Context(), "notes", nil)
	if err != nil {
		t.Fatal(err)
	}
	st, err := lib.Open(t.Context(), info.ID, memory.SessionAuthor("s"))
	if err != nil {
		t.Fatal(err)
	}
	s := session.New(st, nil)
	defer s.Close()
	err = serveTool(t.Context(), tools.New([]tools.Place{{Store: st, Session: s}}, nil), in, func(reply any) error {
		data, err := json.Marshal(reply)
		if err != nil {
			return err
		}
		var one toolReply
		if err := json.Unmarshal(data, &one); err != nil {
			return err
		}
		return taken(one)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestToolLines: whatever stands in a line, it is answered, and so is the next one.
func TestToolLines(t *testing.T) {
	const view = `{"id":%d,"input":{"command":"view","path":"/memories"}}`
	long := `{"id":1,"input":{"command":"create","path":"/memories/f","file_text":"` + strings.Repeat("x", maxToolLine) + `"}}`
	big := `{"id":2,"input":{"command":"create","path":"/memories/f","file_text":"` + strings.Repeat("x", 1<<20) + `"}}`
	deep := `{"id":3,"input":{"command":` + strings.Repeat("[", 5000) + strings.Repeat("]", 5000) + `}}`
	lines := []string{
		long, big, deep, `{"id":4,"input":{"command":"view","path":"/memories/` + "\xff" + `"}}`, `{"id":5,"input":{"command":"view","path":"/memories/\ud800"}}`,
		`{"id":"` + strings.Repeat("i", strictjson.MaxID) + `","input":{}}`, "", "\r", fmt.Sprintf(view, 6) + "\r", `{"id":7,"input":[]}`, `{"id":8,"input":"view"}`, fmt.Sprintf(view, 9),
	}
	var got []string
	serveToolLines(t, strings.NewReader(strings.Join(lines, "\n")), func(r toolReply) error {
		text, _ := r.Content.(string)
		got = append(got, fmt.Sprintf("%s %.60s", r.ID, text))
		return nil
	})
	want := []string{
		"null Error: The line is too long: at most 8388608 bytes.", "2 Error: File /memories/f is too large: 1048576 bytes, at most", "3 Error: The input is nested too deeply.",
		"4 Error: The input is not valid Unicode.", "5 Error: The input is not valid Unicode.", "null Error: the id is longer than 256 bytes; want {\"id\": 1, \"inpu",
		"6 Here're the files and directories up to 2 levels deep in /me", "7 Error: The input is not a JSON object.", "8 Error: The input is not a JSON object.", "9 Here're the files and directories up to 2 levels deep in /me",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestToolBurst: a burst of calls whose answers are not read waits in the pipe, not in memory,
// and is answered in order.
func TestToolBurst(t *testing.T) {
	const burst = 10_000
	in, out := io.Pipe()
	var written int
	go func() {
		padding := strings.Repeat("x", 4<<10)
		for i := range burst {
			n, _ := fmt.Fprintf(out, `{"id":%d,"input":{"command":"nope","path":%q}}`+"\n", i, padding)
			written += n
		}
		_ = out.Close()
	}()
	var before, now runtime.MemStats
	runtime.ReadMemStats(&before)
	next := 0
	serveToolLines(t, in, func(r toolReply) error {
		if string(r.ID) != fmt.Sprint(next) {
			t.Fatalf("%s is answered, want %d", r.ID, next)
		}
		if next++; next == burst/2 {
			runtime.GC()
			runtime.ReadMemStats(&now)
		}
		return nil
	})
	if next != burst || written < burst*4<<10 {
		t.Errorf("%d of %d are answered, of %d bytes", next, burst, written)
	}
	if grown := int64(now.HeapAlloc) - int64(before.HeapAlloc); grown > 10<<20 {
		t.Errorf("halfway the heap has grown by %d bytes", grown)
	}
}

// TestToolReaderStops: answers that cannot be written end it.
func TestToolReaderStops(t *testing.T) {
	err := serveTool(t.Context(), tools.New(nil, nil), bytes.NewReader([]byte("x\nx\n")), func(any) error { return io.ErrClosedPipe })
	if err == nil || !strings.Contains(err.Error(), "write standard output") {
		t.Error(err)
	}
}
