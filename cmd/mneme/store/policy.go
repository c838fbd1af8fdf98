package store

import (
	"fmt"
	"strconv"
	"strings"

	"mneme/cmd/mneme/term"
	"mneme/versionlog"
)

// policyFlags set the rules of a store for its writers.
type policyFlags struct {
	Guard *guardRules `placeholder:"RULES" help:"Hold back what destroys much at once: shrink=50% is a version that takes away more than half of a memory of 1 KiB or more, deletes=20/min is a session that deletes more than 20 memories within a minute. One or both, with a comma between, or off. What is held back fails with EPERM, its bytes are kept as a conflict, and --confirm makes it all the same. Default: off."`

	Secrets *secretsRule `placeholder:"RULE" help:"What becomes of a content that brings a credential into the store, such as a token or a private key, known by its shape: warn commits it and tells its author, refuse fails with EPERM and keeps the bytes as a conflict, unless it is confirmed, off looks for none. A new store has warn."`

	KeepDays     *term.Bound `placeholder:"N" help:"How many days a version is kept after it was replaced, or a deletion after it was made, until 'mneme gc' erases it; 0 is for ever. With --keep-versions what either of them keeps stays. Default: for ever."`
	KeepVersions *term.Bound `placeholder:"N" help:"How many of the newest versions of a memory are kept, when 'mneme gc' is run; 0 is all. The current version always stays. Default: all."`
}

// apply adds the flags to an update.
func (f policyFlags) apply(u *versionlog.StoreUpdate) {
	if f.Guard != nil {
		u.GuardShrinkPercent, u.GuardDeletesPerMinute = &f.Guard.ShrinkPercent, &f.Guard.DeletesPerMinute
	}
	if f.Secrets != nil {
		u.Secrets = (*string)(f.Secrets)
	}
	u.KeepDays, u.KeepVersions = (*int64)(f.KeepDays), (*int64)(f.KeepVersions)
}

// secretsRule is the value of --secrets.
type secretsRule versionlog.SecretsRule

const secretsOff = "off"

// UnmarshalText reads off, warn or refuse.
func (r *secretsRule) UnmarshalText(text []byte) error {
	switch rule := versionlog.SecretsRule(text); {
	case string(text) == secretsOff:
		*r = secretsRule(versionlog.SecretsOff)
	case rule == versionlog.SecretsWarn, rule == versionlog.SecretsRefuse:
		*r = secretsRule(rule)
	default:
		return fmt.Errorf("the rule %.40q; want %s, %s or %s", text, versionlog.SecretsWarn, versionlog.SecretsRefuse, secretsOff)
	}
	return nil
}

// guardRules is the value of --guard: shrink=50%,deletes=20/min.
type guardRules versionlog.Guard

// UnmarshalText reads rules, or off.
func (g *guardRules) UnmarshalText(text []byte) error {
	*g = guardRules{}
	if string(text) == "off" {
		return nil
	}
	for rule := range strings.SplitSeq(string(text), ",") {
		name, value, _ := strings.Cut(rule, "=")
		to, unit, most := &g.ShrinkPercent, "%", int64(100)
		switch name {
		case "shrink":
		case "deletes":
			to, unit, most = &g.DeletesPerMinute, "/min", 1<<31
		default:
			return fmt.Errorf("the rule %.40q; want shrink=50%%, deletes=20/min, both with a comma between, or off", rule)
		}
		n, err := strconv.ParseInt(strings.TrimSuffix(value, unit), 10, 64)
		if err != nil || n < 1 || n > most {
			return fmt.Errorf("the rule %.40q; want %s=N%s, with N from 1 to %d", rule, name, unit, most)
		}
		if *to != 0 {
			return fmt.Errorf("the rule %s stands there twice", name)
		}
		*to = n
	}
	return nil
}

// guardText is a guard in the form of --guard; "" for none.
func guardText(g versionlog.Guard) string {
	var rules []string
	if g.ShrinkPercent > 0 {
		rules = append(rules, fmt.Sprintf("shrink=%d%%", g.ShrinkPercent))
	}
	if g.DeletesPerMinute > 0 {
		rules = append(rules, fmt.Sprintf("deletes=%d/min", g.DeletesPerMinute))
	}
	return strings.Join(rules, ",")
}
