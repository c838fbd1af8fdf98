package snapshot

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"mneme/versionlog"
)

// Format is the format of snapshots that this package reads and writes.
const Format = 1

const (
	manifestName = "manifest"
	magic        = "mneme snapshot "
	maxManifest  = 16 << 20 // of some 20 million heads
)

// manifest is the JSON of a manifest.
type manifest struct {
	StoreID      string `json:"store_id"`
	Creation     string `json:"creation,omitempty"`
	Tip          tip    `json:"tip"`
	HistoryAfter uint64 `json:"history_after"`
	KeysAfter    uint64 `json:"keys_after"`
	Heads        list   `json:"heads"`
	Memories     list   `json:"memories"`
	Keys         list   `json:"keys"`
}

// tip is a versionlog.Tip.
type tip struct {
	Seq      uint64            `json:"seq"`
	Digest   versionlog.Digest `json:"digest"`
	Time     time.Time         `json:"time,omitzero"`
	Bytes    int64             `json:"total_bytes"`
	Memories int64             `json:"total_memories"`
	InHour   int64             `json:"in_hour"`
	Archived time.Time         `json:"archived_at,omitzero"`
}

func tipOf(t versionlog.Tip) tip {
	return tip{t.Seq, t.Digest, t.Time, t.Totals.Bytes, t.Totals.Memories, t.Totals.InHour, t.ArchivedAt}
}

func (t tip) tip() versionlog.Tip {
	totals := versionlog.Totals{Bytes: t.Bytes, Memories: t.Memories, InHour: t.InHour}
	return versionlog.Tip{Seq: t.Seq, Digest: t.Digest, Time: t.Time, Totals: totals, ArchivedAt: t.Archived}
}

// encode returns the object that a manifest is.
func (m *manifest) encode() ([]byte, error) {
	body, err := json.Marshal(m)
	if err != nil {
		return nil, err
	}
	return append(header(body), body...), nil
}

// header is the first line of a manifest, which vouches for the rest of it.
func header(body []byte) []byte {
	return fmt.Appendf(nil, "%s%d %x\n", magic, Format, sha256.Sum256(body))
}

func decodeManifest(data []byte) (*manifest, error) {
	if len(data) > maxManifest {
		return nil, fmt.Errorf("%w: it is larger than %d bytes", versionlog.ErrCorrupt, maxManifest)
	}
	line, body, _ := bytes.Cut(data, []byte("\n"))
	rest, ok := bytes.CutPrefix(line, []byte(magic))
	number, sum, two := bytes.Cut(rest, []byte(" "))
	format, err := strconv.ParseUint(string(number), 10, 32)
	if !ok || !two || err != nil || format < 1 {
		return nil, fmt.Errorf("%w: it does not begin with %q, a number and a hash", versionlog.ErrCorrupt, magic)
	}
	if format > Format {
		return nil, fmt.Errorf("it has format %d, this mneme reads up to %d: %w; use a newer mneme", format, Format, versionlog.ErrFormat)
	}
	if want := sha256.Sum256(body); hex.EncodeToString(want[:]) != string(sum) {
		return nil, fmt.Errorf("%w: it does not match its hash", versionlog.ErrCorrupt)
	}
	var m manifest
	if err := json.Unmarshal(body, &m); err != nil {
		return nil, fmt.Errorf("%w: %w", versionlog.ErrCorrupt, err)
	}
	if err := m.check(); err != nil {
		return nil, fmt.Errorf("%w: %w", versionlog.ErrCorrupt, err)
	}
	return &m, nil
}

// check makes sure that a manifest agrees with itself and that its pages are within their
// limits.
func (m *manifest) check() error {
	if (m.Tip.Seq == 0) != m.Tip.Digest.IsZero() || m.HistoryAfter > m.Tip.Seq || m.KeysAfter > m.Tip.Seq {
		return errors.New("its sequence numbers do not fit together")
	}
	for name, l := range map[string]*list{"heads": &m.Heads, "memories": &m.Memories, "keys": &m.Keys} {
		if err := l.check(); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}
