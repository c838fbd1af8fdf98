package aws

import (
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mneme/internal/testing/awstest"
	"mneme/tests/harness"
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
	e := harness.NewEnv(t)
	e.GoRemote(awstest.S3(t), awstest.DynamoDB(t))
	e.Remote.Vars = append(e.Remote.Vars, "AWS_ENDPOINT_URL_STS="+server.URL)
	e.Store("notes")
	for _, how := range [][]string{nil, {"--keep"}} {
		m := e.Mount(t, append([]string{"notes", "--session=s"}, how...)...)
		mounted <- struct{}{}
		want := `with the credentials of "` + arn + `"`
		var r harness.Result
		for range 100 {
			if r = e.Mneme("mount", "notes", "--session", "s", "--at", filepath.Join(e.Dir, "other")); strings.Contains(r.Stderr, want) {
				break
			}
			time.Sleep(20 * time.Millisecond)
		}
		if r.Code != 4 || !strings.Contains(r.Stderr, want) {
			t.Errorf("with %v: %v, want exit code 4 and %s", how, r, want)
		}
		m.End(t)
	}
}
