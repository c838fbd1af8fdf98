package agentdirs

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
)

// findClaudeCode finds the auto memory of Claude Code for a project, by
// https://code.claude.com/docs/en/memory, the change log of 2.1.74, and what 2.1.332 does.
func findClaudeCode(e *Env) (*Found, error) {
	if err := e.wantUnset("CLAUDE_COWORK_MEMORY_PATH_OVERRIDE", "CLAUDE_CODE_REMOTE_MEMORY_DIR", "CLAUDE_CODE_PROJECT_DIR_NAME"); err != nil {
		return nil, err
	}
	root, err := repository(e.Project)
	if err != nil {
		return nil, err
	}
	const key = "autoMemoryDirectory"
	system := e.System
	if system == "" {
		system = "/etc"
	}
	config := e.orHome("CLAUDE_CONFIG_DIR", ".claude")
	policies, _ := filepath.Glob(filepath.Join(system, "claude-code", "managed-settings.d", "*.json"))
	for _, file := range append(policies, filepath.Join(system, "claude-code", "managed-settings.json")) {
		managed, err := settingIn(file, key)
		if err != nil {
			return nil, err
		}
		if managed.Set {
			return nil, fmt.Errorf("%s says where the memory is, which no other setting changes", managed.File)
		}
	}
	local, err := settingIn(filepath.Join(root, ".claude", "settings.local.json"), key)
	if err != nil {
		return nil, err
	}
	shared, err := settingIn(filepath.Join(root, ".claude", "settings.json"), key)
	if err != nil {
		return nil, err
	}
	user, err := settingIn(filepath.Join(config, "settings.json"), key)
	if err != nil {
		return nil, err
	}
	f := &Found{
		WrittenFor: "2.1.332", Project: root, Setting: local, Name: "claude-code-" + filepath.Base(root),
		Dir:     filepath.Join(config, "projects", projectKey(root), "memory"),
		accepts: func(rel string) bool { return strings.HasSuffix(rel, ".md") },
		layout:  "files *.md",
		Warn:    []string{"Claude Code reads the setting when it starts: start its sessions of this project anew"},
	}
	for _, s := range []*Setting{local, shared, user} {
		if s.Set {
			f.Dir, err = e.expand(s.Value)
			return f, err
		}
	}
	return f, nil
}

// repository returns the root of the git repository that a directory is in, or the directory.
func repository(dir string) (string, error) {
	for at := dir; ; at = filepath.Dir(at) {
		info, err := os.Lstat(filepath.Join(at, ".git"))
		switch {
		case err == nil && info.IsDir():
			return at, nil
		case err == nil:
			return "", fmt.Errorf("%s is a linked worktree or a submodule; name the directory of the repository itself", at)
		case !errors.Is(err, fs.ErrNotExist):
			return "", err
		case at == filepath.Dir(at):
			return dir, nil
		}
	}
}

// projectKey is what Claude Code calls a project: its path, with "-" for each unit of UTF-16 but
// letters and digits; of a longer one than 200 units those, and a hash of all.
func projectKey(root string) string {
	const longest = 200
	var key []byte
	hash := int32(0)
	for _, unit := range utf16.Encode([]rune(root)) {
		hash = hash<<5 - hash + int32(unit)
		if unit >= 'a' && unit <= 'z' || unit >= 'A' && unit <= 'Z' || unit >= '0' && unit <= '9' {
			key = append(key, byte(unit))
		} else {
			key = append(key, '-')
		}
	}
	if len(key) <= longest {
		return string(key)
	}
	return string(key[:longest]) + "-" + strings.TrimPrefix(strconv.FormatInt(int64(hash), 36), "-")
}

// findCodex finds the memories of Codex, by https://developers.openai.com/codex/memories and
// codex-rs/memories/write/src/lib.rs.
func findCodex(e *Env) (*Found, error) {
	known := []string{"MEMORY.md", "memory_summary.md", "raw_memories.md", "phase2_workspace_diff.md", "rollout_summaries", "extensions", "skills", ".git", ".codex-baseline"}
	return &Found{
		WrittenFor: "0.171", Binary: true, Name: "codex", Dir: filepath.Join(e.orHome("CODEX_HOME", ".codex"), "memories"),
		accepts: func(rel string) bool { return slices.Contains(known, top(rel)) },
		layout:  strings.Join(known, ", "),
		Warn:    []string{"Codex writes these files itself; end it first, and keep what it has in memories_1.sqlite"},
	}, nil
}

// findGemini finds the private memory of a project of the Gemini CLI, by
// https://geminicli.com/docs/tools/memory and packages/core/src/config/storage.ts.
func findGemini(e *Env) (*Found, error) {
	base := filepath.Join(e.orHome("GEMINI_CLI_HOME", ""), ".gemini")
	id := e.ID
	if id == "" {
		var err error
		if id, err = geminiProject(base, e.Project); err != nil {
			return nil, err
		}
	}
	if id != filepath.Base(id) || id == "." || id == ".." {
		return nil, fmt.Errorf("%q is no id of a project", id)
	}
	return &Found{
		WrittenFor: "0.61", Name: "gemini-" + id, Project: e.Project, Dir: filepath.Join(base, "tmp", id, "memory"),
		accepts: func(rel string) bool {
			return strings.HasSuffix(rel, ".md") || slices.Contains([]string{"skills", ".inbox"}, top(rel))
		},
		layout: "files *.md, skills, .inbox",
	}, nil
}

// geminiProject returns the id that projects.json gives a project.
func geminiProject(base, project string) (string, error) {
	text, err := readSettings(filepath.Join(base, "projects.json"))
	if err != nil {
		return "", err
	}
	var registry struct {
		Projects map[string]string `json:"projects"`
	}
	if text != nil {
		if err := json.Unmarshal(text, &registry); err != nil {
			return "", fmt.Errorf("%s: %w", filepath.Join(base, "projects.json"), err)
		}
	}
	if id := registry.Projects[project]; id != "" {
		return id, nil
	}
	ids, err := memoriesIn(filepath.Join(base, "tmp"))
	if err != nil {
		return "", err
	}
	if ids == nil {
		return "", fmt.Errorf("it has no project %s, nor memory of another in %s", project, filepath.Join(base, "tmp"))
	}
	return "", fmt.Errorf("%s does not name the project %s; its id is one of %s", filepath.Join(base, "projects.json"), project, strings.Join(ids, ", "))
}

// memoriesIn returns the names of the directories that have one called memory.
func memoriesIn(dir string) (ids []string, err error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, e := range entries {
		if _, err := os.Stat(filepath.Join(dir, e.Name(), "memory")); err == nil {
			ids = append(ids, e.Name())
		}
	}
	return ids, err
}

// findLetta finds the files of an agent of Letta Code (MemFS), by
// https://docs.letta.com/letta-code/memfs and src/agent/memory-git-dir.ts.
func findLetta(e *Env) (*Found, error) {
	base := filepath.Join(e.Home, ".letta", "agents")
	ids, err := memoriesIn(base)
	if err != nil {
		return nil, err
	}
	id := e.ID
	switch {
	case id == "" && len(ids) == 1:
		id = ids[0]
	case id == "" && len(ids) == 0:
		return nil, fmt.Errorf("no agent has memory in %s", base)
	case id == "":
		return nil, fmt.Errorf("there are several agents; the id is one of %s", strings.Join(ids, ", "))
	case !slices.Contains(ids, id):
		return nil, fmt.Errorf("%q is no agent that has memory in %s", id, base)
	}
	return &Found{
		WrittenFor: "0.32", Name: "letta-" + id, Dir: filepath.Join(base, id, "memory"), Git: true,
		accepts: func(rel string) bool { return strings.HasSuffix(rel, ".md") || top(rel) == "skills" },
		needs:   func(there func(string) bool) bool { return there("system") },
		layout:  "a git checkout with system, files *.md and skills",
		Warn:    []string{"End Letta Code first; its git directory is used from a copy"},
	}, nil
}

// findOpenClaw finds the workspace of OpenClaw, by
// https://docs.openclaw.ai/concepts/agent-workspace.
func findOpenClaw(e *Env) (*Found, error) {
	if err := e.wantUnset("OPENCLAW_HOME", "OPENCLAW_WORKSPACE_DIR", "OPENCLAW_CONFIG_PATH"); err != nil {
		return nil, err
	}
	name := ".openclaw"
	if profile := e.Getenv("OPENCLAW_PROFILE"); profile != "" && profile != "default" {
		name += "-" + profile
	}
	state := e.orHome("OPENCLAW_STATE_DIR", name)
	file := filepath.Join(state, "openclaw.json")
	setting, err := settingIn(file, "agents", "defaults", "workspace")
	var own string
	if err == nil {
		own, err = agentWithWorkspace(file)
	}
	if err == nil && own != "" {
		setting, err = settingIn(file, "agents", "entries", own, "workspace")
	}
	if err != nil {
		return nil, err
	}
	f := &Found{
		WrittenFor: "2026.9", Binary: true, Name: "openclaw", Dir: filepath.Join(state, "workspace"), Setting: setting,
		accepts: func(string) bool { return true },
		needs: func(there func(string) bool) bool {
			return there("AGENTS.md") && (there("SOUL.md") || there("MEMORY.md") || there("memory"))
		},
		layout: "AGENTS.md, and one of SOUL.md, MEMORY.md and memory",
		Warn:   []string{"OpenClaw reads the setting when its gateway starts: start that anew"},
	}
	if setting.Set {
		f.Dir, err = e.expand(setting.Value)
	}
	return f, err
}

// agentWithWorkspace returns the only agent, if it has a setting of its own, as `openclaw onboard`
// gives it; else "". Several agents are an error: each has a directory below that of all.
func agentWithWorkspace(file string) (id string, err error) {
	text, err := readSettings(file)
	if err != nil || text == nil {
		return "", err
	}
	type agent struct {
		Workspace string `json:"workspace"`
	}
	var settings struct {
		Agents struct {
			Entries map[string]agent `json:"entries"`
			List    []agent          `json:"list"` // of older versions
		} `json:"agents"`
	}
	if err := json.Unmarshal(text, &settings); err != nil {
		return "", fmt.Errorf("%s: %w", file, err)
	}
	all := slices.AppendSeq(settings.Agents.List, maps.Values(settings.Agents.Entries))
	if n := len(all); n > 1 {
		return "", fmt.Errorf("%s has %d agents; mneme knows the workspace of one", file, n)
	}
	for id, one := range settings.Agents.Entries {
		if one.Workspace != "" {
			return id, nil
		}
	}
	if len(all) == 1 && all[0].Workspace != "" {
		return "", fmt.Errorf("%s: the agent has a workspace of its own, %q, in a list, which mneme does not change", file, all[0].Workspace)
	}
	return "", nil
}
