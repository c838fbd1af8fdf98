package sqlitelog

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strconv"
	"strings"

	"mneme/versionlog"
)

// heads are the live versions of a store, by their paths: those of now, or those after
// a commit of the past.
type heads struct {
	source  source
	at      string                 // the statement that reads the one at a path,
	between func(limit int) string // and the one for some between two paths,
	args    []any                  // with what stands before the paths
}

const headAt = `SELECT ` + versionColumns + ` FROM ` + pathTables + ` WHERE p.store = ? AND p.path = ? AND p.live = 1`

func headsNow(from source, store int64) *heads {
	return &heads{source: from, at: headAt, args: []any{store}, between: func(limit int) string {
		return `SELECT ` + versionColumns + ` FROM ` + pathTables +
			` WHERE p.store = ? AND p.path >= ? AND p.path < ? AND p.live = 1 ORDER BY p.path LIMIT ` + strconv.Itoa(limit)
	}}
}

// The memory that lived at a path after commit ?1 is given by the last version up to ?1 that came
// there, by the index versions_path. There is none if another version up to ?1 has left the path,
// by the index versions_left, or if a later version of the memory up to ?1 was erased: an erased
// version does not tell its place. The table paths has every path that ever was. Its columns have
// types and the expressions of that index have none, so SQLite uses the index only for operands
// that have none either: a parameter, or a value after a plus.
const (
	pathsThen = `paths p CROSS JOIN versions v INDEXED BY versions_path ON v.store = p.store AND v.path = p.path AND v.seq =
		(SELECT max(x.seq) FROM versions x WHERE x.store = p.store AND x.path = p.path AND x.seq <= ?1)
		CROSS JOIN commits c ON c.store = p.store AND c.seq = v.seq`
	lived = `v.op <> 'deleted' AND NOT EXISTS (SELECT 1 FROM versions y
		WHERE y.store + 0 = ?2 AND CASE y.op WHEN 'renamed' THEN y.from_path ELSE y.path END = +p.path
		AND y.op IN ('deleted', 'renamed') AND y.seq > v.seq AND y.seq <= ?1)
		AND NOT EXISTS (SELECT 1 FROM versions z INDEXED BY versions_memory
		WHERE z.store = ?2 AND z.memory_id = v.memory_id AND z.seq > v.seq AND z.seq <= ?1 AND z.path = '')`

	headThen = `SELECT ` + versionColumns + ` FROM ` + pathsThen + ` WHERE p.store = ?2 AND p.path = ?3 AND ` + lived
)

func headsThen(from source, store, seq int64) *heads {
	return &heads{source: from, at: headThen, args: []any{seq, store}, between: func(limit int) string {
		return `SELECT ` + versionColumns + ` FROM ` + pathsThen +
			` WHERE p.store = ?2 AND p.path >= ?3 AND p.path < ?4 AND ` + lived + ` ORDER BY p.path LIMIT ` + strconv.Itoa(limit)
	}}
}

// one returns the one at a path. ErrNotFound.
func (h *heads) one(ctx context.Context, path string) (versionlog.Version, error) {
	return queryOne(ctx, h.source, h.at, scanVersion, append(slices.Clip(h.args), path)...)
}

// page returns so many from a path on and before another, in the room given.
func (h *heads) page(ctx context.Context, room []versionlog.Version, limit int, from, to string) ([]versionlog.Version, error) {
	return queryInto(ctx, room, h.source, h.between(limit), scanVersion, append(slices.Clip(h.args), from, to)...)
}

// afterAll sorts behind all that lies below a path with a slash: no path has this byte.
const afterAll = "\xff"

// under yields the one at prefix and those below it, as far as they are behind after;
// "/" is the root.
func (h *heads) under(ctx context.Context, prefix, after string) iter.Seq2[versionlog.Version, error] {
	if prefix == "/" {
		return h.below(ctx, "", after)
	}
	if prefix <= after {
		return h.below(ctx, prefix, after)
	}
	return func(yield func(versionlog.Version, error) bool) {
		head, err := h.one(ctx, prefix)
		if !errors.Is(err, versionlog.ErrNotFound) && (!yield(head, err) || err != nil) {
			return
		}
		h.below(ctx, prefix, "")(yield)
	}
}

const (
	afterSlash = "0"    // the byte after '/'
	next       = "\x00" // what makes of a path the one that follows it
)

// below yields those whose path begins with above and a slash, and is behind after.
func (h *heads) below(ctx context.Context, above, after string) iter.Seq2[versionlog.Version, error] {
	return growing(firstRows, pageRows, func(last *versionlog.Version, room []versionlog.Version, size int) ([]versionlog.Version, error) {
		from := max(above+"/", after+next)
		if last != nil {
			from = last.Path + next
		}
		return h.page(ctx, room, size, from, above+afterSlash)
	})
}

// in yields one of each name below above and a slash. Where a
// page ends within a subdirectory, the next one begins behind that. Where that
// leaves little of a page, the next ones are single rows.
func (h *heads) in(ctx context.Context, above string) iter.Seq2[versionlog.Version, error] {
	const inARow = 32 // single rows, before a page is tried again
	return func(yield func(versionlog.Version, error) bool) {
		from := above + "/" + next // behind the directory itself
		for singles := 0; ; {
			size := pageNames
			if singles > 0 {
				size = 1
				singles--
			}
			names := 0
			page, err := h.page(ctx, nil, size, from, above+afterSlash)
			if err != nil {
				yield(versionlog.Version{}, err)
				return
			}
			for _, v := range page {
				if v.Path < from { // below the subdirectory that the row before has told of
					continue
				}
				names++
				from = v.Path + next
				if name, _, deeper := strings.Cut(v.Path[len(above)+1:], "/"); deeper {
					from = above + "/" + name + "/" + afterAll
				}
				if !yield(v, nil) {
					return
				}
			}
			if len(page) < size {
				return
			}
			if names*4 <= size {
				singles = inARow
			}
		}
	}
}
