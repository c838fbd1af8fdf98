package memory

import (
	"fmt"

	"mneme/versionlog"
)

// ProblemHistory says that a history lacks a commit that was noted earlier: it was
// cut or replaced.
const ProblemHistory ProblemKind = "history"

const adviceHistory = "if a backup was put in its place, that is why; else somebody has cut or rewritten it: compare it with a backup"

// sees notes whether c is the commit of opts.Against.
func (v *verifier) sees(c *versionlog.Commit) {
	if want := v.opts.Against; want != nil && c.Digest == want.Digest && (want.Seq == 0 || want.Seq == c.Seq) {
		v.proved = true
	}
}

// prove reports a problem when the commit of opts.Against is not in the history.
func (v *verifier) prove() {
	want := v.opts.Against
	if want == nil || v.proved {
		return
	}
	subject, what := fmt.Sprintf("commit %d", want.Seq), "it is another than the one of digest "+want.Digest.String()
	switch {
	case want.Seq == 0:
		subject, what = "commits", "none has the digest "+want.Digest.String()
	case want.Seq > v.tip.Seq:
		what = fmt.Sprintf("it is not there, the history ends at %d", v.tip.Seq)
	}
	v.report(Problem{Kind: ProblemHistory, Subject: subject, What: what, Do: adviceHistory})
}
