package tree

import "time"

// stamp is any time in half the memory that a time.Time takes: 12 bytes, since no part
// of it is larger than four. An entry has two, and a store that is loaded many entries.
type stamp struct{ high, low, nanos uint32 }

func newStamp(t time.Time) stamp {
	seconds := uint64(t.Unix())
	return stamp{uint32(seconds >> 32), uint32(seconds), uint32(t.Nanosecond())}
}

func (s stamp) time() time.Time {
	return time.Unix(int64(uint64(s.high)<<32|uint64(s.low)), int64(s.nanos))
}
