package sdk

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	_ "github.com/oapi-codegen/runtime" // what oapi-codegen writes uses it

	"mneme/tests/harness"
)

var document = filepath.Join("..", "..", "server", "openapi", "openapi.json")

// TestOapiCodegen has a client made of the OpenAPI document, which compiles and is understood.
func TestOapiCodegen(t *testing.T) {
	dir := t.TempDir()
	made, program, overlay := filepath.Join(dir, "client.go"), filepath.Join(dir, "generated"), filepath.Join(dir, "overlay.json")
	module, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	const sources = "testdata/generated"
	data, err := json.Marshal(map[string]any{"Replace": map[string]string{filepath.Join(module, sources, "client.go"): made}})
	if err == nil {
		err = os.WriteFile(overlay, data, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	do := func(name string, args ...string) string {
		t.Helper()
		out, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput()
		if err != nil {
			t.Fatalf("%s %v: %v\n%s", name, args, err, out)
		}
		return string(out)
	}
	do("go", "tool", "oapi-codegen", "-generate", "types,client", "-package", "main", "-o", made, document)
	do("go", "build", "-gcflags=-N -l", "-overlay", overlay, "-o", program, "./"+sources)
	s := serve(t)
	if got, want := do(program, s.wire(t).URL, s.secret), `"path":"/a.md"`; !strings.Contains(got, want) {
		t.Errorf("the client has read %s; want %s", got, want)
	}
}

// TestOpenAPITypeScript has types made of the document.
func TestOpenAPITypeScript(t *testing.T) {
	n := harness.FindNode(t, filepath.Join("..", "agents", "node", "package-lock.json"))
	cmd := exec.CommandContext(t.Context(), n.Program, filepath.Join(n.Modules, "openapi-typescript", "bin", "cli.js"), document)
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.Output()
	if want := `"/v1/memory_stores/{memory_store_id}/memories": {`; err != nil || !strings.Contains(string(out), want) {
		t.Errorf("%v: %s\n%s; want %s", err, &said, out, want)
	}
}
