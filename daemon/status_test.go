package daemon

import (
	"encoding/json"
	"testing"
)

func TestStatusJSON(t *testing.T) {
	got, err := json.Marshal(parseStatuses("store: 2024\nid: memstore_x\nsession: 7\nmax-memory-bytes: 102400\nstate: degraded: \"x\"\n\nstore: b\nid: memstore_y\n\n"))
	want := `[{"store":"2024","id":"memstore_x","session":"7","max_memory_bytes":102400,"state":"degraded: \"x\""},{"store":"b","id":"memstore_y"}]`
	if err != nil || string(got) != want {
		t.Errorf("got %s, %v, want %s", got, err, want)
	}
}
