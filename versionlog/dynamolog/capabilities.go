package dynamolog

import "mneme/versionlog"

// Capabilities has Next.
func (l *Log) Capabilities() versionlog.Capabilities { return versionlog.Capabilities{Next: l.Next} }
