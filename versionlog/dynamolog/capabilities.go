package dynamolog

import "mneme/versionlog"

// Capabilities has Fits and Next.
func (l *Log) Capabilities() versionlog.Capabilities {
	return versionlog.Capabilities{Fits: fits, Next: l.Next}
}

// fits returns the error of a proposal that no transaction has room for.
func fits(p *versionlog.Proposal) error {
	if err := validate(p); err != nil || p.Finished == nil {
		return err
	}
	return newBatch(nil).append(&request{proposal: p}, p.Finished)
}
