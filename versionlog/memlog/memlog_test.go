package memlog_test

import (
	"testing"
	"time"

	"mneme/versionlog"
	"mneme/versionlog/logtest"
	"mneme/versionlog/memlog"
)

func TestLog(t *testing.T) {
	logtest.Run(t, logtest.Config{
		Open: func(_ testing.TB, now func() time.Time) versionlog.Log {
			return memlog.New(&memlog.Options{Now: now})
		},
	})
}
