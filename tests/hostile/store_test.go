package hostile

import (
	"os"
	"strings"
	"testing"

	"mneme/tests/harness"
)

// big is a script that prints a text that is kept as a file.
const big = `head -c 300000 /dev/zero | tr '\0' x`

// Root uses no store, and no other directory for its own files, that another user
// may change. The error says whose it is.
func TestDirectoriesOfOthers(t *testing.T) {
	p := newPlace(t)
	p.mkdir("user", other, 0o755)
	p.mkdir("user/home", other, 0o755)
	p.mkdir("group", 0, 0o775)
	p.mkdir("tmp", 0, 0o777|os.ModeSticky)
	p.sh(other, `MNEME_URL=file://$PWD/user/stores mneme store create notes >&2; HOME=$PWD/user/home; MNEME_URL=file://$HOME/.local/share/mneme mneme store create notes`)
	p.sh(0, `mkdir own; ln -s own link; mneme store create notes >&2; mkdir tmp/stores; chown 3002 tmp/stores; echo text > f`)
	const sudo = `HOME=$PWD/user/home; unset MNEME_URL; `
	for script, want := range map[string]string{
		`MNEME_URL=file://$PWD/user/stores mneme ls notes`:                                      "user belongs to user 3002",
		`MNEME_URL=file://$PWD/user/stores mneme write notes:/a < f`:                            "user belongs to user 3002",
		`MNEME_URL=file://$PWD/user/stores mneme store create more`:                             "user belongs to user 3002",
		`MNEME_URL=file://$PWD/user/stores mneme fsck`:                                          "user belongs to user 3002",
		`MNEME_URL=file://$PWD/user/stores mneme backup own/copy`:                               "user belongs to user 3002",
		`MNEME_URL=file://$PWD/user/new mneme store create more`:                                "user belongs to user 3002",
		`MNEME_URL=file://$PWD/group mneme store create more`:                                   "group 0 may write in",
		`MNEME_URL=file://$PWD/tmp mneme store create more`:                                     "everybody may make files in",
		`MNEME_URL=file://$PWD/tmp/stores mneme store create more`:                              "tmp/stores belongs to user 3002",
		sudo + `mneme ls notes`:                                                                 "user belongs to user 3002",
		sudo + `mneme mount notes --at $PWD/m --background`:                                     "user belongs to user 3002",
		`XDG_STATE_HOME=$PWD/user/state mneme mount notes --at $PWD/m --background`:             "log of the daemon: ",
		`MNEME_CONFLICTS=$PWD/user/c mneme mount notes --at $PWD/m --background`:                "conflicts: ",
		`mneme backup user/copy`:                                                                "user belongs to user 3002",
		`mneme backup user/copy.tar`:                                                            "user belongs to user 3002",
		`MNEME_URL='aws://bucket?table=table' mneme mount notes --at $PWD/m --cache-dir user/c`: "cache: ",
	} {
		r := p.try(0, "export AWS_REGION=x AWS_ACCESS_KEY_ID=x AWS_SECRET_ACCESS_KEY=x AWS_ENDPOINT_URL=http://127.0.0.1:1\n"+script)
		if r.code != 5 || !strings.Contains(r.stderr, want) || !strings.Contains(r.stderr, "run mneme as that user") {
			t.Errorf("%s\n%v\nwant exit code 5 and %q", script, r, want)
		}
	}
	if found := p.sh(0, `find own group tmp/stores user -mindepth 1 -user 0`); found != "" {
		t.Errorf("root has made\n%s", found)
	}
	if left := harness.MountsBelow(p.dir); left != nil {
		t.Errorf("mounted are %v", left)
	}
	// Root's own store works, by a link of root's, too; and the user's works for the user: the
	// user may have links anywhere.
	p.sh(0, `export MNEME_URL=file://$PWD/link/stores; mneme store create notes >&2; mneme write notes:/a < f >&2; mneme backup tmp/copy >&2; chmod 755 own/stores; mneme cat notes:/a`)
	p.sh(0, `unshare --mount --propagation=private bash -c 'umount -l /proc; mneme ls notes'`) // where the kernel does not tell of mounts
	p.sh(other, `cd user; mkdir disk; ln -s disk here; export MNEME_URL=file://$PWD/here/stores; mneme store create notes >&2; echo text | mneme write notes:/a`)
}

// Links that another user has left in a directory that is root's now lead nowhere.
func TestPlantedLinks(t *testing.T) {
	for _, c := range []struct{ name, plant, then, want string }{
		{"changed", `rm changed; ln -s "$V/shadow" changed`, `echo text | mneme write notes:/b`, "not a regular file"},
		{"tips", `rm tips; ln -s "$V/shadow" tips`, `echo text | mneme write notes:/b`, ""},
		{"tips, new", `rm tips; ln -s "$V/new" tips`, `echo text | mneme write notes:/b`, ""},
		{"database", `mv log.db "$V/db"; ln -s "$V/db" log.db`, `echo text | mneme write notes:/b`, "not a regular file"},
		{"write-ahead log", `ln -sf "$V/shadow" log.db-wal`, `echo text | mneme write notes:/b`, "not a regular file"},
		{"index", `ln -sf "$V/new" log.db-shm`, `echo text | mneme write notes:/b`, "not a regular file"},
		{"format", `rm format; ln -s "$V/new" format`, `mneme store create more`, "escapes"},
		{"blobs of a store", `mkdir -p stores/$id; ln -s "$V" stores/$id/blobs; chown -h 3002 stores/$id/blobs`, big + ` | mneme write notes:/b`, "belongs to user 3002"},
		{"stores", `ln -s "$V" stores; chown -h 3002 stores`, big + ` | mneme write notes:/b`, "belongs to user 3002"},
		{"blobs by digest", `mkdir -p stores/$id/blobs; ln -s "$V" stores/$id/blobs/$hh`, big + ` | mneme write notes:/b`, "escapes"},
		{"directory by digest", `mkdir -p stores/$id/blobs/$hh; chown 3002 stores/$id/blobs/$hh`, big + ` | mneme write notes:/b`, "belongs to user 3002"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newPlace(t)
			p.mkdir("victim", 0, 0o755)
			p.sh(0, `V=$PWD/victim; echo secret > victim/shadow; cd home/stores 2>/dev/null || true
				id=$(mneme store create notes --max-memory-bytes 10MiB --json | grep -o 'memstore_[0-9a-z]*' | head -1)
				echo text | mneme write notes:/a >&2; hh=$(`+big+` | sha256sum | cut -c 1-2); cd "$V/../home/stores"; `+c.plant)
			before := p.sh(0, `find victim -type f ! -name db | sort | xargs sha256sum`)
			if r := p.try(0, c.then); (r.code == 0) != (c.want == "") || !strings.Contains(r.stderr, c.want) {
				t.Errorf("%v\nwant %q", r, c.want)
			}
			if after := p.sh(0, `find victim -type f ! -name db | sort | xargs sha256sum`); after != before {
				t.Errorf("outside there is\n%s, before\n%s", after, before)
			}
			if got := p.sh(0, `find victim -name 'db-*' -o -name '*.tmp*' -o -type d ! -name victim`); got != "" {
				t.Errorf("outside there is %s", got)
			}
		})
	}
}
