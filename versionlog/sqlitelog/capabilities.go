package sqlitelog

import "mneme/versionlog"

// Capabilities has all.
func (l *Log) Capabilities() versionlog.Capabilities {
	return versionlog.Capabilities{MaxContent: MaxContent, Near: true, Purge: l.Purge, KnownTip: l.KnownTip, Next: l.Next, NewestContent: l.newestContent, Survey: l.survey, Clock: l.commonClock}
}
