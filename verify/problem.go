package verify

import (
	"mneme/finding"
	"mneme/versionlog"
)

// Problem is one thing that is wrong with a store.
type Problem struct {
	Kind     ProblemKind
	Finding  finding.Kind // which of the findings that there are
	Subject  string       // what it is about: "commit 12", "/todo.md", "blob 3f…"
	What     string       // what is wrong with it
	Do       string       // what a person can do about it
	Repaired bool         // it was mended

	// Version is one whose bytes a ProblemBlob is about, and Current says that it is
	// the newest of a memory that is there.
	Version versionlog.Version
	Current bool
}

// ProblemKind says which check found a problem.
type ProblemKind string

// The kinds of problems.
const (
	ProblemRecord ProblemKind = "record" // a commit record is missing, damaged or not the one that follows
	ProblemHead   ProblemKind = "head"   // the index says something else than the records
	ProblemBlob   ProblemKind = "blob"   // bytes are missing or not those that were stored
)
