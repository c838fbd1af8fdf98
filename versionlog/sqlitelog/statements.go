package sqlitelog

import (
	"fmt"
	"strconv"
	"time"

	"mneme/internal/sqlite"
	"mneme/versionlog"
)

// spellingColumn is a column that databases of earlier formats do not have.
const spellingColumn = `v.spelling`

// unlessEarly leaves out early versions, which databases of earlier formats do not have.
const unlessEarly = ` AND NOT (v.seq = s.tip_seq + 1 AND EXISTS (SELECT 1 FROM early WHERE store = v.store))`

const versionColumns = `v.id, v.memory_id, v.parent, v.seq, v.op, v.path, v.from_path, v.sha256, v.size,
	c.actor_kind, c.actor_id, c.session, c.time, c.message, ` + spellingColumn

// behindVersion is the place of a column behind versionColumns.
const behindVersion = 15

const versionTables = `versions v` + commitsOfVersions

// memoryTables are versionTables for the versions of one memory. SQLite would rather read
// all versions of the store, since those are in the order that is asked for.
const memoryTables = `versions v INDEXED BY versions_memory` + commitsOfVersions

const commitsOfVersions = ` JOIN commits c ON c.store = v.store AND c.seq = v.seq`

const pathTables = `paths p CROSS JOIN versions v ON v.store = p.store AND v.seq = p.seq AND v.ord = p.ord
	CROSS JOIN commits c ON c.store = p.store AND c.seq = p.seq`

// The reads. Limits are written out: SQLite plans a statement with LIMIT ? again
// every time it runs, which takes as long as the rest of a commit.
const (
	lastAt = `SELECT ` + versionColumns + ` FROM ` + pathTables + ` WHERE p.store = ? AND p.path = ?`

	// heldBelow finds one of the paths between two.
	heldBelow = `SELECT 1 FROM paths WHERE store = ? AND path > ? AND path < ? LIMIT 1`

	versionByID = `SELECT ` + versionColumns + ` FROM ` + versionTables + ` WHERE v.store = ? AND v.seq = ? AND v.ord = ? AND v.id = ?`
	newestOf    = `SELECT ` + versionColumns + ` FROM ` + memoryTables + ` WHERE v.store = ? AND v.memory_id = ? ORDER BY v.seq DESC LIMIT 1`

	// newestContentOf is newestOf with the content, NULL where the log has none of that digest as it is.
	newestContentOf = `SELECT ` + versionColumns + `, b.data FROM ` + memoryTables +
		` LEFT JOIN blobs b ON b.store = v.store AND b.sha256 = v.sha256 WHERE v.store = ? AND v.memory_id = ? ORDER BY v.seq DESC LIMIT 1`

	// leftBefore is the version that freed a path last below a sequence number.
	// The conditions are those of the index versions_left, word for word; in a log
	// of an earlier format they find it without.
	leftBefore = `SELECT ` + versionColumns + ` FROM ` + versionTables +
		` WHERE v.store + 0 = ? AND CASE v.op WHEN 'renamed' THEN v.from_path ELSE v.path END = ?
		AND v.op IN ('deleted', 'renamed') AND v.seq < ? ORDER BY v.seq DESC LIMIT 1`

	recordByKey = `SELECT seq, record FROM commits WHERE store = ? AND key = ?`
	recordAt    = `SELECT seq, record FROM commits WHERE store = ? AND seq = ?`

	// highestNumber is the highest number that a store ever had.
	highestNumber = `SELECT seq FROM sqlite_sequence WHERE name = 'stores'`

	contentsElsewhere = `SELECT DISTINCT v.sha256 FROM versions v WHERE v.store = ? AND v.sha256 IS NOT NULL
		AND NOT EXISTS (SELECT 1 FROM blobs b WHERE b.store = v.store AND b.sha256 = v.sha256)
		AND NOT EXISTS (SELECT 1 FROM packed p WHERE p.store = v.store AND substr(p.sha256, 1, 8) = substr(v.sha256, 1, 8)
			AND p.sha256 = v.sha256 AND p.data IS NOT NULL)`
)

// historyBefore reads so many versions of a memory below a sequence number.
func historyBefore(limit int) string {
	return `SELECT ` + versionColumns + ` FROM ` + memoryTables +
		` WHERE v.store = ? AND v.memory_id = ? AND v.seq < ? ORDER BY v.seq DESC LIMIT ` + strconv.Itoa(limit)
}

// recordsAfter reads so many commits above a sequence number.
func recordsAfter(limit int) string {
	return `SELECT seq, record FROM commits WHERE store = ? AND seq > ? ORDER BY seq LIMIT ` + strconv.Itoa(limit)
}

// recordsBefore reads so many commits below a sequence number: of a session, of an actor, between
// two times, and with a version of an operation and of a memory. A parameter that is "" is not
// asked for. The commits of a memory are found by its versions.
func recordsBefore(limit int, ofMemory bool) string {
	text := `SELECT seq, record FROM commits c WHERE store = ?1 AND seq < ?2 AND (?3 = '' OR session = ?3) AND (?4 = '' OR actor_id = ?4)
		AND time BETWEEN ?5 AND ?6`
	if ofMemory {
		text += ` AND seq IN (SELECT v.seq FROM versions v WHERE v.store = ?1 AND v.memory_id = ?8 AND (?7 = '' OR v.op = ?7))`
	} else {
		text += ` AND (?7 = '' OR ?8 <> '' OR EXISTS (SELECT 1 FROM versions v WHERE v.store = ?1 AND v.seq = c.seq AND v.op = ?7))`
	}
	return text + ` ORDER BY seq DESC LIMIT ` + strconv.Itoa(limit)
}

// pathRowsAfter reads so many rows of paths behind one.
func pathRowsAfter(limit int) string {
	return `SELECT path, seq, ord, live FROM paths WHERE store = ? AND path > ? ORDER BY path LIMIT ` + strconv.Itoa(limit)
}

// keyAside is the form, made of key and seq, of the key in a row of commits if a later commit has
// the same key: longer than any key, so that the newest commit of the key is found by it.
const keyAside = "%s#%0128d"

// The writes.
const (
	insertCommit = `INSERT INTO commits (store, seq, key, time, actor_kind, actor_id, session, message, record)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`
	setKeyAside   = `UPDATE commits SET key = printf('` + keyAside + `', key, seq) WHERE store = ? AND key = ?`
	insertVersion = `INSERT INTO versions (store, seq, ord, id, memory_id, parent, op, path, from_path, sha256, size, spelling)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
	noteEarly     = `INSERT INTO early (store, id) VALUES (?, ?)`
	dropEarlyNote = `DELETE FROM early WHERE store = ?`
	dropEarly     = `DELETE FROM versions WHERE store = ? AND seq = ?`
	leavePath     = `UPDATE paths SET live = 0 WHERE store = ?1 AND seq = ?2 AND ord = ?3
		AND path = (SELECT path FROM versions WHERE store = ?1 AND seq = ?2 AND ord = ?3)`

	setPath = `INSERT INTO paths (store, path, seq, ord, live) VALUES (?, ?, ?, ?, ?)
		ON CONFLICT DO UPDATE SET seq = excluded.seq, ord = excluded.ord, live = excluded.live`
	// stayAtPath is setPath for a memory that is live there before, too: the index of those is not written to.
	stayAtPath = `INSERT INTO paths (store, path, seq, ord, live) VALUES (?, ?, ?, ?, 1)
		ON CONFLICT DO UPDATE SET seq = excluded.seq, ord = excluded.ord`
	setTip = `UPDATE stores SET tip_seq = ?1, counted_seq = ?1, tip_digest = ?2, tip_time = ?3,
		total_bytes = ?4, total_memories = ?5, in_hour = ?6 WHERE num = ?7`

	insertStore = `INSERT INTO stores (id, slug, name, description, max_bytes, content, created_at, archived_at,
		quota_bytes, quota_memories, quota_per_hour, metadata, updated_at, epoch, replica, policy)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
	updateStore = `UPDATE stores SET name = ?, description = ?, max_bytes = ?, content = ?, created_at = ?, archived_at = ?,
		quota_bytes = ?, quota_memories = ?, quota_per_hour = ?, metadata = ?, updated_at = ?, epoch = ?, replica = ?, policy = ? WHERE num = ?`

	dropStore = `DELETE FROM stores WHERE num = ?`

	dropBlob = `DELETE FROM blobs WHERE store = ? AND sha256 = ?`
	// Rows that hold the right bytes are not written to.
	keepBlob = `INSERT INTO blobs (store, sha256, data) VALUES (?, ?, ?)
		ON CONFLICT DO UPDATE SET data = excluded.data WHERE data <> excluded.data`
)

func scanVersion(row *sqlite.Row) (versionlog.Version, error) {
	v := versionlog.Version{
		ID: row.ColumnText(0), MemoryID: row.ColumnText(1), Parent: row.ColumnText(2), Seq: uint64(row.ColumnInt64(3)),
		Op: versionlog.Op(row.ColumnText(4)), Path: row.ColumnText(5), From: row.ColumnText(6), Size: row.ColumnInt64(8),
		Actor:   versionlog.Actor{Kind: versionlog.ActorKind(row.ColumnText(9)), ID: row.ColumnText(10)},
		Session: row.ColumnText(11), Time: time.UnixMicro(row.ColumnInt64(12)).UTC(), Message: row.ColumnText(13),
		Spelling: row.ColumnText(14),
	}
	var err error
	v.Digest, err = digestIn(row, 7)
	return v, err
}

// digestIn and blobOf: NULL stands for the zero digest.
func digestIn(row *sqlite.Row, column int) (d versionlog.Digest, err error) {
	raw := row.ColumnRawBlob(column)
	if len(raw) != len(d) && !sqlite.IsNull(row, column) {
		return d, fmt.Errorf("%w: a digest of %d bytes", versionlog.ErrCorrupt, len(raw))
	}
	copy(d[:], raw)
	return d, nil
}

func blobOf(d versionlog.Digest) []byte {
	if d.IsZero() {
		return nil
	}
	return d[:]
}

// timeIn and microsOf: NULL stands for the zero time.
func timeIn(row *sqlite.Row, column int) time.Time {
	if sqlite.IsNull(row, column) {
		return time.Time{}
	}
	return time.UnixMicro(row.ColumnInt64(column)).UTC()
}

func microsOf(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.UnixMicro()
}

func boolOf(b bool) int {
	if b {
		return 1
	}
	return 0
}
