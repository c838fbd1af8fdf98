// Package adopt puts the directory in which an agent has its memory on a store: it plans
// that, imports the files, mounts the store or changes the agent's setting, and undoes all
// of it, even after a kill. A record on disk lists each step before it is done. It uses
// backend, memory, daemon and internal/agentdirs. The caller starts and ends the mounts,
// asks the person, and prints the plan. Read adoption.go first, then plan.go.
package adopt
