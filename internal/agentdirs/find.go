package agentdirs

import (
	"fmt"
	"slices"
)

// Agents returns the names of the agents, in alphabetical order.
func Agents() []string {
	names := make([]string, 0, len(agents))
	for name := range agents {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// agents are those that Find knows.
var agents = map[string]func(*Env) (*Found, error){
	"claude-code": findClaudeCode,
	"codex":       findCodex,
	"gemini":      findGemini,
	"letta-files": findLetta,
	"openclaw":    findOpenClaw,
}

// Find finds the memory of an agent, one of Agents.
func Find(agent string, env *Env) (*Found, error) {
	f, err := agents[agent](env)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", agent, err)
	}
	f.Agent = agent
	return f, nil
}
