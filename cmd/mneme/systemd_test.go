package main

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"mneme/cmd/mneme/app"
)

// TestServeHandedOver: a server answers at the socket that a service manager has opened, and at no
// other.
func TestServeHandedOver(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	socket, err := l.(*net.TCPListener).File()
	if err != nil {
		t.Fatal(err)
	}
	url := "file://" + filepath.Join(t.TempDir(), "stores")
	lib, err := app.OpenLibrary(t.Context(), &url, app.Creating)
	if err != nil {
		t.Fatal(err)
	}
	if err := lib.Close(); err != nil {
		t.Fatal(err)
	}
	mneme := mnemeCommand(t, []string{"HOME=" + t.TempDir(), "MNEME_URL=" + url, "LISTEN_FDS=1"}, "serve", "--listen", "127.0.0.1:1")
	serve := exec.Command("sh", append([]string{"-c", `LISTEN_PID=$$ exec "$@"`, "sh", mneme.Path}, mneme.Args[1:]...)...)
	serve.Env, serve.ExtraFiles, serve.Stderr = mneme.Env, []*os.File{socket}, os.Stderr
	if err := serve.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = serve.Process.Signal(os.Interrupt)
		_ = serve.Wait()
	}()
	socket.Close()
	l.Close()
	client := http.Client{Timeout: time.Minute} // the socket takes the request before the process does
	answer, err := client.Get(fmt.Sprintf("http://%s/healthz", l.Addr()))
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		t.Errorf("it answers %s", answer.Status)
	}
}
