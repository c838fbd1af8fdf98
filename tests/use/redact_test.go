package use

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"mneme/tests/harness"
)

// TestRedactedEverywhere writes a text in each way that there is, erases it, and looks for it
// in every file that mneme has, also what a killed mount has left, in mounts and their past, which
// the kernel has kept, in the memory of their processes, one of which has a keeper, and in what commands print. One of the mounts is stopped meanwhile.
func TestRedactedEverywhere(t *testing.T) {
	t.Parallel()
	e := harness.NewEnv(t)
	e.Store("notes", "--max-memory-bytes", "4000000")
	m := e.Mount(t, "notes")
	const canary = "CANARY-7f3a9c"       // which names have, too
	const text = "the-text-of-" + canary // and contents
	m.Sh(t, `c=`+canary+` t=`+text+`; mneme() { `+fmt.Sprintf("%q", harness.Binary)+` "$@"; }
		echo $t > written.md
		echo plain > appended.md; echo $t >> appended.md
		mkdir dir; echo x > dir/x.md; mv dir/x.md dir/$c.md; mv dir/$c.md dir/x.md
		mkdir $c; rmdir $c
		echo $t > .saved.tmp; mv .saved.tmp saved.md
		seq 2000 > edited.md; sed -i "s/^1000$/$t/" edited.md
		python3 -c 'import sys; open("python.md", "w").write(sys.argv[1])' $t
		printf "some $t text" > cut.md; truncate -s 8 cut.md
		(seq 40000; echo $t) > big.md; for n in 4000 100000 200000; do (yes $t || :) | head -c $n > of$n.md; done
		for i in 1 2 3 4 5 6 7 8; do seq $((i * 300)) > base.md; echo $t $i >> base.md; done
		echo $t > gone.md; rm gone.md
		echo $t > moved.md; mv moved.md elsewhere.md
		echo $t > .hid.md; echo other > .hid.md; grep -q $t .mneme/versions/.hid.md/*
		echo $t | mneme write notes:/command.md
		echo $t > restored.md; echo other > restored.md; mneme restore notes:/restored.md "$(mneme log notes:/restored.md --json | sed -n '$s/.*"seq":\([0-9]*\).*/\1/p')"
		echo '{"changes":[{"action":"put","path":"/applied.md","content":"'$t'"}]}' | mneme apply notes
		echo '{"id":1,"input":{"command":"create","path":"/memories/tool.md","file_text":"'$t'"}}' | mneme tool --store notes --session s1
		echo '{"id":1,"input":{"command":"str_replace","path":"/memories/tool.md","old_str":"'$t'","new_str":"'$t' twice"}}' | mneme tool --store notes --session s1
		printf '%s\n' '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}' '{"jsonrpc":"2.0","method":"notifications/initialized"}' \
			'{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"write","arguments":{"path":"/memories/mcp.md","text":"'$t'"}}}' | mneme mcp --store notes --session s2
		echo '{"id":1,"method":"remember","params":{"thread_id":"t","turn_id":"1","entries":[{"text":"'$t'"}]}}' | mneme plugin --store notes --session s3
		mneme store create other; echo $t | mneme write other:/imported.md; echo $t | mneme write other:/.d/.e.md; mneme export other --heads-only > "`+e.Dir+`/tar"
		mneme import "`+e.Dir+`/tar" notes --mode merge; rm "`+e.Dir+`/tar"; mneme store delete other --yes
		until test -e mcp.md -a -e threads/t/1.md -a -e imported.md -a -e .d/.e.md; do sleep .05; done
		cp written.md copied.md
		grep -q $t .mneme/pack/60000
		! echo lost > restored.md; for f in *.md .hid.md .d/.e.md dir/*.md threads/t/1.md; do cat $f > /dev/null; echo clean > $f; done
		grep -r . .mneme/at .mneme/versions > "`+e.Dir+`/seen" 2>&1 || true
		n=$(mneme log notes --json | sed -n '1s/.*"seq":\([0-9]*\).*/\1/p')
		for i in $(seq 2 6 $n); do grep -r . .mneme/at/$i; done > "`+e.Dir+`/past" 2>&1 || true`)
	past, err := os.ReadFile(filepath.Join(e.Dir, "past"))
	if err != nil || strings.Count(string(past), canary) < 20 {
		t.Fatalf("the past has it %d times, %v", strings.Count(string(past), canary), err)
	}
	for _, name := range []string{"seen", "past"} {
		if err := os.Remove(filepath.Join(e.Dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	r := e.Mount(t, "notes:ro") // whose files the kernel opens by itself, and keeps
	const everything = `grep ` + canary + ` .mneme/pack/60000@30 || :; for i in 7 14 21 28 35 40; do grep -r ` + canary + ` .mneme/at/$i || :; done; find .mneme/at/30 .mneme/at/40 | grep ` + canary + ` || :`
	if seen := r.Try(t, everything); strings.Count(seen.Stdout, canary) < 20 {
		t.Fatalf("the read-only mount shows %v", seen)
	}
	kept := e.Mount(t, "notes", "--keep") // which notes written bytes for a process that may have to continue
	kept.Sh(t, `(yes `+text+` || :) | head -c 100000 > kept.md; cat kept.md > /dev/null; echo clean > kept.md`)
	k := e.Mount(t, "notes")
	k.Sh(t, `echo `+text+` > .k.tmp; mv .k.tmp k.md; echo clean > k.md`)
	k.Kill(t)
	lasting := startAgents(t, e, text)
	if e.Remote != nil {
		if found := e.RemoteHolders(t, canary); len(found) < 20 {
			t.Fatalf("the backend has it in %q", found)
		}
	}
	signal := func(with syscall.Signal) {
		t.Helper()
		if err := syscall.Kill(r.PID, with); err != nil {
			t.Fatal(err)
		}
	}
	signal(syscall.SIGSTOP) // during all of the redaction
	receipt := e.Must(t, "redact", "notes", "--grep", canary, "--reason", "a test", "--yes")
	if strings.Contains(receipt, "NOT YET") {
		t.Errorf("not all is done:\n%s", receipt)
	}
	signal(syscall.SIGCONT)
	m.Eventually(t, `! grep -rq `+canary+` .mneme/at/9`)
	if left := m.Try(t, `cat .mneme/pack/60000; n=$(tail -1 .mneme/events | sed 's/.*"seq":\([0-9]*\).*/\1/')
		grep -r `+canary+` . .mneme .mneme/versions || :; for i in $(seq 2 6 $n); do grep -rl `+canary+` .mneme/at/$i || :; ls -R .mneme/at/$i | grep `+canary+` || :; done`); strings.Contains(left.Stdout, canary) || left.Code != 0 {
		t.Errorf("the mount has it: %v", left)
	}
	r.Eventually(t, `test -z "$(`+everything+`)"`)
	for _, command := range [][]string{{"log", "notes", "-p"}, {"log", "notes", "--json"}, {"fsck", "notes"}, {"show", "notes", "2"}, {"status", "-v"}} {
		if out := e.Must(t, command...); strings.Contains(out, canary) {
			t.Errorf("mneme %v prints it", command)
		}
	}
	in := map[string]int{}
	files := 0
	look := func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		if n := strings.Count(string(data), canary) + strings.Count(path, canary); n > 0 {
			in[path] = n
		}
		files++
		return err
	}
	err = filepath.WalkDir(e.Home, look)
	if e.Remote == nil {
		err = errors.Join(err, filepath.WalkDir(e.Stores, look))
	} else if found := e.RemoteHolders(t, canary); len(found) > 0 {
		t.Errorf("the backend has it in %q", found)
	}
	for _, mount := range []*harness.Mount{m, r, kept} {
		mount.Forgets(t, text)
	}
	lasting.forget(t, text)
	if err != nil || len(in) > 0 || files < 5 {
		t.Errorf("of %d files these have it: %v, %v", files, in, err)
	}
}

// TestErasedInKeptConflicts: a mount that begins erases kept conflicts of versions that were redacted
// while the machine was off.
func TestErasedInKeptConflicts(t *testing.T) {
	t.Parallel()
	e := harness.NewEnv(t)
	e.Store("notes")
	m := e.Mount(t, "notes")
	m.Lose(t, "erased", "canary", "theirs", "mine")
	m.Lose(t, "stays", "base", "theirs", "mine")
	m.End(t)
	kept := ""
	err := filepath.WalkDir(e.Dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.IsDir() && d.Name() == "conflicts" {
			kept = path
		}
		return err
	})
	off := filepath.Join(e.Dir, "off")
	if err := errors.Join(err, os.Rename(kept, off)); err != nil {
		t.Fatal(err)
	}
	e.Must(t, "redact", "notes", "--grep", "canary", "--reason", "a test", "--yes")
	if err := errors.Join(os.RemoveAll(kept), os.Rename(off, kept)); err != nil {
		t.Fatal(err)
	}
	next := e.Mount(t, "notes")
	next.Eventually(t, `test ! -e .mneme/conflicts/1 -a -e .mneme/conflicts/2`)
	if data, err := os.ReadFile(filepath.Join(next.At, "notes/.mneme/conflicts/2/base")); err != nil || string(data) != "base" {
		t.Errorf("the other one has %q, %v", data, err)
	}
}

// TestRedactScratch: a scratch file of a running mount that has the text is named by the receipt, with its
// session, until the file is gone.
func TestRedactScratch(t *testing.T) {
	t.Parallel()
	e := harness.NewEnv(t)
	e.Store("notes")
	m := e.Mount(t, "notes")
	m.Sh(t, `echo the canary > .plan.md.swp; echo canary > a.md; echo clean > a.md`)
	redact := func(code int) harness.Result {
		t.Helper()
		r := e.Mneme("redact", "notes", "--grep", "canary", "--reason", "a test", "--yes")
		if r.Code != code {
			t.Errorf("redact: %v, want %d", r, code)
		}
		return r
	}
	if said := redact(1).Stdout; !strings.Contains(said, "NOT YET  scratch files of running mounts (1)") || !strings.Contains(said, "notes:/.plan.md.swp") || !strings.Contains(said, m.Session) {
		t.Errorf("the receipt is\n%s", said)
	}
	m.Sh(t, `grep -q canary .plan.md.swp; rm .plan.md.swp`)
	if said := redact(3).Stdout; strings.Contains(said, "NOT YET") {
		t.Errorf("the receipt is\n%s", said)
	}
}

// TestRedactedOnServer writes and reads a text through each face of a server and through mounts of it, erases
// it by the API and by the command line, and looks for it in every file and in the memory of server and mounts.
func TestRedactedOnServer(t *testing.T) {
	t.Parallel()
	e := harness.NewEnv(t)
	e.Store("notes", "--max-memory-bytes", "4000000")
	at := e.Serve(t, harness.AnyPort)
	server := e.Server
	s := &credentials{t, e}
	var key struct{ Secret string }
	if err := json.Unmarshal([]byte(s.beside("key", "create", "all", "--admin", "--json")), &key); err != nil {
		t.Fatal(err)
	}
	e.Vars = append(e.Vars, "MNEME_URL="+at)
	s.use(key.Secret)
	m, o := e.Mount(t, "notes"), e.Mount(t, "notes:ro")
	const text = "the-text-of-CANARY-5d81"
	m.Sh(t, `t=`+text+`; mneme() { `+fmt.Sprintf("%q", harness.Binary)+` "$@"; }; set -e
		ask() { curl -sS --fail-with-body -H "Authorization: Bearer $MNEME_TOKEN" -H 'anthropic-version: 2026-10-21' -H 'content-type: application/json' "$@"; echo; }
		api="$MNEME_URL/v1/memory_stores/$(mneme store show notes --json | sed 's/.*"id":"\([^"]*\)".*/\1/')"
		agents="$MNEME_URL/v1/mneme"
		echo $t > written.md; seq 2000 > edited.md; sed -i "s/^1000$/$t/" edited.md
		(yes $t || :) | head -c 100000 > big.md; for i in $(seq 30); do echo $t $i > many$i.md; done
		echo $t | mneme write notes:/command.md
		made=$(ask "$api/memories" -d '{"path":"/api.md","content":"'$t'"}'); id=$(echo "$made" | sed 's/.*"id":"\(mem_[^"]*\)".*/\1/')
		ask "$api/memories/$id" | grep $t > /dev/null; ask "$api/memories?view=full" | grep $t > /dev/null; ask "$api/memory_versions?view=full" | grep $t > /dev/null
		ask "$agents/tools/memory" -d '{"command":"create","path":"/memories/tool.md","file_text":"'$t'"}'
		ask "$agents/tools/memory" -d '{"command":"view","path":"/memories/tool.md"}' | grep $t > /dev/null
		ask "$agents/plugin/remember" -d '{"thread_id":"t","turn_id":"1","entries":[{"text":"'$t'"}]}'
		ask "$agents/plugin/recall" -d '{"query":"CANARY-5d81"}'
		mcp() { ask "$MNEME_URL/mcp" -H 'accept: application/json, text/event-stream' -d "$1"; }
		mcp '{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"write","arguments":{"path":"/memories/mcp.md","text":"'$t'"}}}'
		mcp '{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"search","arguments":{"query":"'$t'"}}}' | grep $t > /dev/null
		until test -e mcp.md -a -e threads/t/1.md -a -e tool.md; do sleep .05; done
		grep -rq $t . ; for f in *.md threads/t/1.md; do cat $f > /dev/null; echo clean > $f; done
		grep -rq $t .mneme/versions
		ask "$api/memory_versions/$(echo "$made" | sed 's/.*"memory_version_id":"\([^"]*\)".*/\1/')/redact" -X POST | grep '"redaction":{"type":"redaction".*"place":"kept conflicts (0)","erased_at"'`)
	o.Sh(t, `! grep -r `+text+` . ; grep -rq `+text+` .mneme/versions`)
	lasting := startAgents(t, e, text)
	receipt := e.Must(t, "redact", "notes", "--grep", text, "--reason", "a test", "--yes")
	if strings.Contains(receipt, "NOT YET") || !strings.Contains(receipt, "the server's kept conflicts (0)") {
		t.Errorf("the receipt is\n%s", receipt)
	}
	in := map[string]int{}
	err := filepath.WalkDir(e.Dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.IsDir() && path == m.At || path == o.At {
			return filepath.SkipDir
		}
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		if n := strings.Count(string(data), text); n > 0 {
			in[path] = n
		}
		return err
	})
	if err != nil || len(in) > 0 {
		t.Errorf("these files have it: %v, %v", in, err)
	}
	if e.Remote != nil {
		if found := e.RemoteHolders(t, text); len(found) > 0 {
			t.Errorf("the backend has it in %q", found)
		}
	}
	harness.Forget(t, text, server)
	lasting.forget(t, text)
	m.Forgets(t, text)
	o.Forgets(t, text)
}
