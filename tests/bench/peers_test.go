package bench

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"mneme/internal/awsconf"
	"mneme/internal/testing/awstest"
	"mneme/tests/harness"
)

// counted is a server behind a proxy that counts the requests to it, and may hold each for a time.
type counted struct {
	url      string
	requests atomic.Int64
	late     atomic.Int64 // nanoseconds
}

func newCounted(b testing.TB, endpoint string) *counted {
	b.Helper()
	to, err := url.Parse(endpoint)
	if err != nil {
		b.Fatal(err)
	}
	c := &counted{}
	// The host stays the one that was asked for: requests are signed with it.
	proxy := &httputil.ReverseProxy{Rewrite: func(p *httputil.ProxyRequest) {
		p.SetURL(to)
		p.Out.Host = p.In.Host
	}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		c.requests.Add(1)
		time.Sleep(time.Duration(c.late.Load()))
		proxy.ServeHTTP(w, request)
	}))
	b.Cleanup(server.Close)
	c.url = server.URL
	return c
}

// settled returns how many requests there were, once there are no more.
func (c *counted) settled() int64 {
	const quiet, patience = 300 * time.Millisecond, 3 * time.Second
	before := c.requests.Load()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		time.Sleep(quiet)
		now := c.requests.Load()
		if now == before {
			break
		}
		before = now
	}
	return before
}

// patience of a peer with what it has heard of the bucket.
const (
	peersTrust = "3600" // seconds: as a mount that only its own user changes is set up
	peersDoubt = "1"    // as late as mneme promises to be
)

// rclone mounts a bucket with rclone, which closes a file when it is uploaded.
func rclone(b testing.TB, e *harness.Env, endpoint, bucket, trust string) *peer {
	dir := newDir(b, e, "rclone-")
	return startPeer(b, e, filepath.Join(dir, "mnt"), nil, "rclone", append([]string{
		"mount", ":s3:" + bucket, filepath.Join(dir, "mnt"), "--vfs-cache-mode=full", "--vfs-write-back=0", "--poll-interval=0",
		"--dir-cache-time=" + trust + "s", "--attr-timeout=1s", "--cache-dir=" + filepath.Join(dir, "cache"),
	}, rcloneS3(endpoint)...)...)
}

// rcloneS3 are the flags that tell rclone where a bucket is.
func rcloneS3(endpoint string) []string {
	return []string{
		"--config=", "--s3-provider=Other", "--s3-endpoint=" + endpoint, "--s3-access-key-id=" + awstest.AccessKey,
		"--s3-secret-access-key=" + awstest.SecretKey, "--s3-region=" + awstest.Region, "--s3-no-check-bucket",
	}
}

// s3fs mounts a bucket with s3fs.
func s3fs(b testing.TB, e *harness.Env, endpoint, bucket, trust string) *peer {
	dir := newDir(b, e, "s3fs-")
	keys := filepath.Join(dir, "keys")
	if err := os.WriteFile(keys, []byte(awstest.AccessKey+":"+awstest.SecretKey+"\n"), 0o600); err != nil {
		b.Fatal(err)
	}
	return startPeer(b, e, filepath.Join(dir, "mnt"), nil, "s3fs", bucket, filepath.Join(dir, "mnt"), "-f",
		"-o", "url="+endpoint, "-o", "endpoint="+awstest.Region, "-o", "use_path_request_style", "-o", "passwd_file="+keys,
		"-o", "use_cache="+filepath.Join(dir, "cache"), "-o", "stat_cache_expire="+trust, "-o", "max_stat_cache_size=100000",
		"-o", "mp_umask=022", "-o", "umask=022")
}

func newDir(b testing.TB, e *harness.Env, prefix string) string {
	b.Helper()
	dir, err := os.MkdirTemp(e.Dir, prefix)
	if err != nil {
		b.Fatal(err)
	}
	return dir
}

// bucket makes a bucket with the files of a directory.
func bucket(b testing.TB, e *harness.Env, endpoint, from string) string {
	b.Helper()
	name := awstest.Name("bench")
	awstest.MakeBucket(b, awstest.ClientsFor(b, &awsconf.Options{}, endpoint, "").S3, name)
	if from != "" {
		bench(b, e, "rclone", append([]string{"copy", from, ":s3:" + name, "--quiet", "--retries=1"}, rcloneS3(endpoint)...)...)
	}
	return name
}

// onAWS is an environment whose stores are behind those endpoints.
func (r *report) onAWS(s3, dynamo string) *harness.Env {
	e := harness.NewEnv(r.B)
	e.GoRemote(s3, dynamo)
	return e
}

// readPeers compares warm reading with what else mounts a bucket, over fewer
// files: some of them take minutes for many.
func (r *report) readPeers() {
	files := r.either(1000, 200)
	dir := filepath.Join(r.env.Dir, "peers")
	paths := corpus(r.B, dir, files)
	server := awstest.NewS3(r.B)
	aws := r.onAWS(server.Endpoint, awstest.DynamoDB(r.B))
	fill(r.B, aws, "notes", dir, paths)
	local := harness.NewEnv(r.B)
	fill(r.B, local, "notes", dir, paths)
	list := sample(r.B, r.env, paths, files/2)
	r.cacheBound(aws)

	targets := []struct{ name, dir string }{
		{"ext4", dir},
		{"mneme, read-only", local.Mount(r.B, "notes:ro").Dir},
		{"mneme, writable", local.Mount(r.B, "notes").Dir},
		{"mneme on S3, read-only", aws.Mount(r.B, "notes:ro").Dir},
		{"mneme on S3, writable", aws.Mount(r.B, "notes").Dir},
		{"rclone mount", rclone(r.B, r.env, server.Endpoint, bucket(r.B, r.env, server.Endpoint, dir), peersTrust).dir},
		{"s3fs", s3fs(r.B, r.env, server.Endpoint, bucket(r.B, r.env, server.Endpoint, dir), peersTrust).dir},
	}
	header := []string{"work"}
	for _, t := range targets {
		header = append(header, t.name)
	}
	header[1] += ", ms"
	all := warmWork(r.B, r.env, list, files/2)
	cold := all[0]
	cold.name = "first " + cold.name
	for i, w := range append([]work{cold}, all...) {
		took := timings{}
		rounds := 6
		if i == 0 {
			rounds = 1 // there is one first time
		}
		for round := range rounds {
			for _, t := range targets {
				if d := w.run(t.dir); round > 0 || rounds == 1 {
					took.add(w.name, t.name, d)
				}
			}
		}
		row := []string{w.name, took[w.name]["ext4"].withSpread()}
		for _, t := range targets[1:] {
			s := took[w.name][t.name]
			ratios := s.over(took[w.name]["ext4"])
			text := fmt.Sprintf("**%s**", figure(s.median()/took[w.name]["ext4"].median()))
			if len(s) > 1 {
				text += fmt.Sprintf(" (%s–%s)", figure(ratios.least()), figure(ratios.most()))
			}
			row = append(row, text)
		}
		r.table("peers", header...).row(row...)
	}
}
