package agentdirs

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// at is a place where agents are looked for.
type at struct {
	*testing.T
	dir string
	env Env
}

// newAt makes files, by their paths below a directory of its own.
func newAt(t *testing.T, files map[string]string, vars map[string]string) *at {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(strings.ReplaceAll(text, "$DIR", dir)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	getenv := func(name string) string { return strings.ReplaceAll(vars[name], "$DIR", dir) }
	return &at{t, dir, Env{Home: dir + "/home", Getenv: getenv, Project: dir + "/work/my_app", System: dir + "/etc"}}
}

// TestFind finds the memory of each agent in its layouts.
func TestFind(t *testing.T) {
	key := func(dir string) string { return projectKey(dir + "/work/my_app") }
	for name, test := range map[string]struct {
		agent       string
		files, vars map[string]string
		id          string
		dir         string // below the directory; "!" begins what the error says
		setting     string // its file
	}{
		"claude-code": {"claude-code", map[string]string{"work/my_app/.git/HEAD": ""}, nil, "",
			"home/.claude/projects/KEY/memory", "work/my_app/.claude/settings.local.json"},
		"claude-code without git": {"claude-code", map[string]string{"work/my_app/x": ""}, nil, "",
			"home/.claude/projects/KEY/memory", "work/my_app/.claude/settings.local.json"},
		"claude-code elsewhere": {"claude-code", map[string]string{"work/my_app/.git/HEAD": ""}, map[string]string{"CLAUDE_CONFIG_DIR": "$DIR/c"}, "",
			"c/projects/KEY/memory", "work/my_app/.claude/settings.local.json"},
		"claude-code with a user's setting": {"claude-code", map[string]string{"home/.claude/settings.json": `{"autoMemoryDirectory": "~/mem"}`}, nil, "",
			"home/mem", "work/my_app/.claude/settings.local.json"},
		"claude-code with a project's setting": {"claude-code", map[string]string{
			"home/.claude/settings.json": `{"autoMemoryDirectory": "~/mem"}`, "work/my_app/.claude/settings.local.json": `{"autoMemoryDirectory": "$DIR/own"}`}, nil, "",
			"own", "work/my_app/.claude/settings.local.json"},
		"claude-code with a shared setting": {"claude-code", map[string]string{
			"home/.claude/settings.json": `{"autoMemoryDirectory": "~/mem"}`, "work/my_app/.claude/settings.json": `{"autoMemoryDirectory": "$DIR/shared"}`}, nil, "",
			"shared", "work/my_app/.claude/settings.local.json"},
		"claude-code variable":                {"claude-code", nil, map[string]string{"CLAUDE_COWORK_MEMORY_PATH_OVERRIDE": "/x"}, "", "!$CLAUDE_COWORK_MEMORY_PATH_OVERRIDE is set", ""},
		"claude-code by policy":               {"claude-code", map[string]string{"etc/claude-code/managed-settings.json": `{"autoMemoryDirectory": "/x"}`}, nil, "", "!no other setting changes", ""},
		"claude-code by a policy of many":     {"claude-code", map[string]string{"etc/claude-code/managed-settings.d/10-x.json": `{"autoMemoryDirectory": "/x"}`}, nil, "", "!no other setting changes", ""},
		"claude-code in a worktree":           {"claude-code", map[string]string{"work/my_app/.git": "gitdir: /x"}, nil, "", "!linked worktree", ""},
		"claude-code with a relative setting": {"claude-code", map[string]string{"home/.claude/settings.json": `{"autoMemoryDirectory": ".mem"}`}, nil, "", "!no absolute path", ""},
		"claude-code with comments":           {"claude-code", map[string]string{"work/my_app/.claude/settings.local.json": "{} // mine"}, nil, "", "!plain JSON", ""},
		"codex":                               {"codex", nil, nil, "", "home/.codex/memories", ""},
		"codex elsewhere":                     {"codex", nil, map[string]string{"CODEX_HOME": "$DIR/c"}, "", "c/memories", ""},
		"gemini":                              {"gemini", map[string]string{"home/.gemini/projects.json": `{"projects": {"$DIR/work/my_app": "my-app"}}`}, nil, "", "home/.gemini/tmp/my-app/memory", ""},
		"gemini elsewhere":                    {"gemini", map[string]string{"g/.gemini/projects.json": `{"projects": {"$DIR/work/my_app": "my-app"}}`}, map[string]string{"GEMINI_CLI_HOME": "$DIR/g"}, "", "g/.gemini/tmp/my-app/memory", ""},
		"gemini by id":                        {"gemini", nil, nil, "other", "home/.gemini/tmp/other/memory", ""},
		"gemini of others":                    {"gemini", map[string]string{"home/.gemini/tmp/x1/memory/a.md": ""}, nil, "", "!one of x1", ""},
		"gemini of nobody":                    {"gemini", nil, nil, "", "!no project", ""},
		"gemini by a path":                    {"gemini", nil, nil, "../x", "!no id", ""},
		"openclaw":                            {"openclaw", map[string]string{"home/.openclaw/openclaw.json": `{"agents": {}}`}, nil, "", "home/.openclaw/workspace", "home/.openclaw/openclaw.json"},
		"openclaw profile":                    {"openclaw", nil, map[string]string{"OPENCLAW_PROFILE": "p"}, "", "home/.openclaw-p/workspace", "home/.openclaw-p/openclaw.json"},
		"openclaw set":                        {"openclaw", map[string]string{"home/.openclaw/openclaw.json": `{"agents": {"defaults": {"workspace": "~/w"}}}`}, nil, "", "home/w", "home/.openclaw/openclaw.json"},
		"letta-files":                         {"letta-files", map[string]string{"home/.letta/agents/a1/memory/system/x.md": "", "home/.letta/agents/a2/x": ""}, nil, "", "home/.letta/agents/a1/memory", ""},
		"letta-files by id":                   {"letta-files", map[string]string{"home/.letta/agents/a1/memory/x.md": "", "home/.letta/agents/a2/memory/x.md": ""}, nil, "a2", "home/.letta/agents/a2/memory", ""},
		"letta-files of many":                 {"letta-files", map[string]string{"home/.letta/agents/a1/memory/x.md": "", "home/.letta/agents/a2/memory/x.md": ""}, nil, "", "!one of a1, a2", ""},
		"letta-files of none":                 {"letta-files", nil, nil, "", "!no agent has memory", ""},
		"letta-files of a path":               {"letta-files", map[string]string{"home/.letta/agents/a1/memory/x.md": ""}, nil, "../agents/a1", "!is no agent", ""},
		"openclaw JSON5":                      {"openclaw", map[string]string{"home/.openclaw/openclaw.json": `{agents: {}}`}, nil, "", "!plain JSON", ""},
		"openclaw agents":                     {"openclaw", map[string]string{"home/.openclaw/openclaw.json": `{"agents": {"entries": {"a": {}, "b": {}}}}`}, nil, "", "!2 agents", ""},
		"openclaw list":                       {"openclaw", map[string]string{"home/.openclaw/openclaw.json": `{"agents": {"list": [{"id": "a"}, {"id": "b"}]}}`}, nil, "", "!2 agents", ""},
		"openclaw own":                        {"openclaw", map[string]string{"home/.openclaw/openclaw.json": `{"agents": {"defaults": {"workspace": "~/w"}, "entries": {"a": {"workspace": "~/x"}}}}`}, nil, "", "home/x", "home/.openclaw/openclaw.json"},
		"openclaw own in list":                {"openclaw", map[string]string{"home/.openclaw/openclaw.json": `{"agents": {"list": [{"id": "a", "workspace": "~/x"}]}}`}, nil, "", "!workspace of its own", ""},
		"openclaw home":                       {"openclaw", nil, map[string]string{"OPENCLAW_HOME": "/w"}, "", "!$OPENCLAW_HOME is set", ""},
		"openclaw variable":                   {"openclaw", nil, map[string]string{"OPENCLAW_WORKSPACE_DIR": "/w"}, "", "!$OPENCLAW_WORKSPACE_DIR is set", ""},
	} {
		t.Run(name, func(t *testing.T) {
			a := newAt(t, test.files, test.vars)
			a.env.ID = test.id
			f, err := Find(test.agent, &a.env)
			if want, fails := strings.CutPrefix(test.dir, "!"); fails {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("%v, want %s", err, want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			want := filepath.Join(a.dir, strings.ReplaceAll(test.dir, "KEY", key(a.dir)))
			if f.Dir != want || f.Agent != test.agent || f.WrittenFor == "" {
				t.Errorf("%+v, want %s", f, want)
			}
			if f.Setting == nil && test.setting != "" || f.Setting != nil && f.Setting.File != filepath.Join(a.dir, test.setting) {
				t.Errorf("the setting is %+v, want it in %s", f.Setting, test.setting)
			}
		})
	}
}

// TestSettingsThatAreLinks holds that settings which are a link to others are not replaced.
func TestSettingsThatAreLinks(t *testing.T) {
	a := newAt(t, map[string]string{"dot/settings.json": "{}", "work/my_app/.claude/x": ""}, nil)
	if err := os.Symlink(a.dir+"/dot/settings.json", a.env.Project+"/.claude/settings.local.json"); err != nil {
		t.Fatal(err)
	}
	if _, err := Find("claude-code", &a.env); err == nil || !strings.Contains(err.Error(), "regular file") {
		t.Error(err)
	}
}

// TestCheck holds layouts against what agents document.
func TestCheck(t *testing.T) {
	for _, test := range []struct {
		agent string
		files []string
		known bool
	}{
		{"claude-code", nil, true},
		{"claude-code", []string{"MEMORY.md", "topics/a.md"}, true},
		{"claude-code", []string{"MEMORY.md", "index.db"}, false},
		{"codex", []string{"MEMORY.md", "memory_summary.md", "rollout_summaries/a.md", ".git/objects/ab/cd"}, true},
		{"codex", []string{"raw_memories.md", "phase2_workspace_diff.md", ".codex-baseline/.git/HEAD"}, true},
		{"codex", []string{"MEMORY.md", "other/a.md"}, false},
		{"gemini", []string{"MEMORY.md", "skills/x/run.py"}, true},
		{"gemini", []string{"logs.json"}, false},
		{"openclaw", []string{"AGENTS.md", "SOUL.md", "skills/x/run.py"}, true},
		{"openclaw", []string{"AGENTS.md", "memory/2026-11-26.md"}, true},
		{"openclaw", []string{"AGENTS.md", "memory.txt"}, false},
		{"openclaw", []string{"package.json"}, false},
		{"letta-files", []string{"system/persona.md", "notes.md", "skills/x/run.py"}, true},
		{"letta-files", []string{"notes.md"}, false},
		{"letta-files", []string{"system/persona.md", "x.db"}, false},
	} {
		a := newAt(t, map[string]string{"home/.letta/agents/id/memory/x.md": ""}, nil)
		a.env.ID = "id"
		f, err := Find(test.agent, &a.env)
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Check(test.files); (err == nil) != test.known || err != nil && !errors.Is(err, ErrUnknown) {
			t.Errorf("%s %v: %v", test.agent, test.files, err)
		}
	}
}

// TestProjectKey holds what Claude Code 2.1.332 calls projects, as it was seen to.
func TestProjectKey(t *testing.T) {
	long := "/tmp/w/pluguse/" + strings.Repeat("long", 30) + "/" + strings.Repeat("deep", 30)
	for root, want := range map[string]string{
		"/tmp/w/pluguse/ünï_dir.x y": "-tmp-w-pluguse--n--dir-x-y",
		"/a/😀":                       "-a---",
		long:                         "-tmp-w-pluguse-" + strings.Repeat("long", 30) + "-" + strings.Repeat("deep", 16) + "-976oiu",
	} {
		if got := projectKey(root); got != want {
			t.Errorf("%s is %s, want %s", root, got, want)
		}
	}
}

// TestGuides holds that each agent has a page, and that the page and the list of all name the
// version that the package was written for.
func TestGuides(t *testing.T) {
	h := newAt(t, map[string]string{"home/.letta/agents/a1/memory/.git/HEAD": "ref: refs/heads/main\n"}, nil)
	h.env.ID = "a1"
	guide := func(name string) string {
		text, err := os.ReadFile(filepath.Join("..", "..", "docs", "guide", name))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	list := guide("use.md")
	for _, agent := range Agents() {
		found, err := Find(agent, &h.env)
		if err != nil {
			t.Fatal(err)
		}
		page := strings.TrimSuffix(agent, "-files") + ".md"
		if !strings.Contains(guide(page), " "+found.WrittenFor) {
			t.Errorf("%s does not name version %s", page, found.WrittenFor)
		}
		if !strings.Contains(list, "("+page+") | "+found.WrittenFor+" |") {
			t.Errorf("use.md does not name version %s of %s", found.WrittenFor, agent)
		}
	}
}
