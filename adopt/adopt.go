// Package adopt puts an agent's directory on a store, and undoes that. It plans, imports the
// files, has the store mounted or changes the agent's setting. It can undo all steps, even
// after a kill: a record on disk lists each step before it is done. It uses
// backend, memory, daemon and internal/agentdirs. The caller starts and ends the mounts,
// asks the person, and prints the plan. Read adoption.go first, then plan.go.
package adopt
