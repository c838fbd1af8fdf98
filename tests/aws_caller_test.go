package tests

import (
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mneme/internal/testing/awstest"
)

// TestSessionNamesTheCaller: a mount that is refused a session is told with whose
// credentials the one works that has it, served by a keeper or not. The mount does not
// wait for STS to say so.
func TestSessionNamesTheCaller(t *testing.T) {
	t.Parallel()
	const arn = "arn:aws:sts::123456789012:assumed-role/agents/i-0abc"
	mounted := make(chan struct{}, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-mounted:
		case <-r.Context().Done():
			return
		}
		_, _ = io.WriteString(w, `<GetCallerIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><GetCallerIdentityResult><Arn>`+arn+
			`</Arn><UserId>A:i</UserId><Account>123456789012</Account></GetCallerIdentityResult></GetCallerIdentityResponse>`)
	}))
	t.Cleanup(server.Close)
	e := newEnv(t)
	e.goRemote(awstest.S3(t), awstest.DynamoDB(t))
	e.remote.vars = append(e.remote.vars, "AWS_ENDPOINT_URL_STS="+server.URL)
	e.store("notes")
	for _, how := range [][]string{nil, {"--keep"}} {
		m := e.mount(t, append([]string{"notes", "--session=s"}, how...)...)
		mounted <- struct{}{}
		want := `with the credentials of "` + arn + `"`
		var r result
		for range 100 {
			if r = e.mneme("mount", "notes", "--session", "s", "--at", filepath.Join(e.dir, "other")); strings.Contains(r.stderr, want) {
				break
			}
			time.Sleep(20 * time.Millisecond)
		}
		if r.code != 4 || !strings.Contains(r.stderr, want) {
			t.Errorf("with %v: %v, want exit code 4 and %s", how, r, want)
		}
		m.end(t)
	}
}
