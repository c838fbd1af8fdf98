package versionlog

import (
	"fmt"
	"strings"

	"mneme/internal/plural"
)

// Policy is a store's rules for its writers, and how long it keeps versions that are not
// heads. The zero Policy asks nothing and keeps everything. A log keeps it; package memory
// obeys it.
type Policy struct {
	// Guard keeps destructive writes from landing unconfirmed.
	Guard Guard `json:"guard,omitzero"`
	// Secrets says what becomes of a content in which a credential is found.
	Secrets SecretsRule `json:"secrets,omitempty"`
	// Retention says which versions may be let go.
	Retention Retention `json:"retention,omitzero"`
}

// Guard bounds what one commit or one session may destroy without saying so
// (Proposal.Confirmed). A field that is zero bounds nothing.
type Guard struct {
	// ShrinkPercent, 1 to 100, is how much of a memory of at least GuardedSize one version
	// may take away.
	ShrinkPercent int64 `json:"shrink_percent,omitempty"`
	// DeletesPerMinute is how many memories one session may delete within a minute.
	DeletesPerMinute int64 `json:"deletes_per_minute,omitempty"`
}

// Retention bounds how long versions are kept that are not the head of a live memory: one
// is let go when all bounds that are set are passed. A field that is zero sets no bound.
type Retention struct {
	// KeepDays is how many days a version is kept after another one has replaced it, and a
	// deletion after it was made.
	KeepDays int64 `json:"keep_days,omitempty"`
	// KeepVersions is how many of the newest versions of a memory are kept.
	KeepVersions int64 `json:"keep_versions,omitempty"`
}

// String describes the kept versions in words.
func (r Retention) String() string {
	var kept []string
	if r.KeepVersions > 0 {
		kept = append(kept, fmt.Sprintf("the newest %s of a memory", plural.Of(r.KeepVersions, "version")))
	}
	if r.KeepDays > 0 {
		kept = append(kept, fmt.Sprintf("versions for %s after they were replaced", plural.Of(r.KeepDays, "day")))
	}
	if kept == nil {
		return "all versions"
	}
	return strings.Join(kept, ", and ")
}

// SecretsRule says what becomes of a content in which a credential is found.
type SecretsRule string

// The rules for secrets.
const (
	SecretsOff    SecretsRule = ""       // nothing looks for any
	SecretsWarn   SecretsRule = "warn"   // it is committed, and its author is told
	SecretsRefuse SecretsRule = "refuse" // it is not committed
)

// Check reports what is wrong with a policy.
func (p *Policy) Check() error {
	if n := p.Guard.ShrinkPercent; n < 0 || n > 100 {
		return fmt.Errorf("a guard of %d percent; want 1 to 100, or 0 for none", n)
	}
	for _, bound := range []struct {
		what string
		n    int64
	}{
		{"deletions a minute", p.Guard.DeletesPerMinute}, {"days", p.Retention.KeepDays}, {"versions", p.Retention.KeepVersions},
	} {
		if bound.n < 0 {
			return fmt.Errorf("%d %s; want 1 or more, or 0 for any number", bound.n, bound.what)
		}
	}
	switch p.Secrets {
	case SecretsOff, SecretsWarn, SecretsRefuse:
		return nil
	}
	return fmt.Errorf("the rule %.40q for secrets; want %q, %q or none", p.Secrets, SecretsWarn, SecretsRefuse)
}
