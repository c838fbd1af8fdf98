package verify

import (
	"fmt"

	"mneme/finding"
	"mneme/versionlog"
)

// ProblemHistory says that a history lacks a commit that was noted earlier: it was
// cut or replaced.
const ProblemHistory ProblemKind = "history"

const adviceHistory = "if a backup was put in its place, that is why; else somebody has cut or rewritten it: compare it with a backup"

// sees notes whether c is the commit of opts.Against, or has its number.
func (v *verifier) sees(c *versionlog.Commit) {
	want := v.opts.Against
	if want == nil {
		return
	}
	if c.Seq == want.Seq {
		v.inIts = c.Digest
	}
	if c.Digest == want.Digest && (want.Seq == 0 || want.Seq == c.Seq) {
		v.proved = true
	}
}

// prove reports a problem when the commit of opts.Against is not in the history.
func (v *verifier) prove() {
	want := v.opts.Against
	if want == nil || v.proved {
		return
	}
	what := fmt.Sprintf("commit %d has the digest %v, not %v", want.Seq, v.inIts, want.Digest)
	switch {
	case want.Seq == 0:
		what = fmt.Sprintf("it has no commit of digest %v", want.Digest)
	case want.Seq > v.tip.Seq:
		what = fmt.Sprintf("it has no commit %d", want.Seq)
	case v.inIts.IsZero():
		what = fmt.Sprintf("commit %d cannot be read, so it is not known to have the digest %v", want.Seq, want.Digest)
	}
	if v.tip.Seq > 0 {
		what += fmt.Sprintf("; it ends with commit %d, %v", v.tip.Seq, v.tip.Digest)
	} else {
		what += "; it has no commits"
	}
	v.report(Problem{Kind: ProblemHistory, Finding: finding.History, Subject: "history", What: what, Do: adviceHistory})
}
