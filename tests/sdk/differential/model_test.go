package differential

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"
	"strings"
	"time"

	"golang.org/x/text/unicode/norm"
)

// model is what the published rules say that a server has: docs/API.md says where they are silent.
type model struct {
	stores []*store // also those that were deleted
	keyID  string
}

type store struct {
	id, name, description string
	metadata              map[string]string
	archived, deleted     bool
	created               time.Time
	memories              map[string]*memory // live ones, by id
	versions              []*version         // oldest first
}

type memory struct {
	id, path, content string
	head              *version
}

type version struct {
	id, memoryID, operation, path, content string
	redacted                               bool
	created                                time.Time
}

// refusal is how a request is to fail.
type refusal struct {
	status int
	kind   string
}

var (
	invalid      = &refusal{400, "invalid_request_error"}
	notFound     = &refusal{404, "not_found_error"}
	precondition = &refusal{409, "memory_precondition_failed_error"}
	pathConflict = &refusal{409, "memory_path_conflict_error"}
	conflict     = &refusal{409, "conflict_error"}
)

const maxContent = 102_400 // bytes

func sum(content string) string {
	digest := sha256.Sum256([]byte(content))
	return hex.EncodeToString(digest[:])
}

// canonical is the form in which a path is kept; ok is false where it breaks a rule.
func canonical(path string) (string, bool) {
	path = norm.NFC.String(path)
	names := strings.Split(path, "/")
	if names[0] != "" || len(names) < 2 || len(names) > 21 || len(path) > 1024 || strings.ContainsAny(path, "\x00\n\u202e\u2028\u200b") {
		return "", false
	}
	for _, name := range names[1:] {
		if name == "" || name == "." || name == ".." {
			return "", false
		}
	}
	return path, true
}

// blocking returns the memories, but for one, that have a path, or one above or below it.
func (s *store) blocking(path, but string) (all []*memory) {
	for _, m := range s.memories {
		if m.id != but && (m.path == path || strings.HasPrefix(m.path, path+"/") || strings.HasPrefix(path, m.path+"/")) {
			all = append(all, m)
		}
	}
	return all
}

// create judges a creation.
func (s *store) create(path, content string) (clean string, r *refusal) {
	clean, ok := canonical(path)
	switch {
	case s.deleted:
		return "", notFound
	case !ok || len(content) > maxContent || s.archived:
		return clean, invalid
	case len(s.blocking(clean, "")) > 0:
		return "", pathConflict
	}
	return clean, nil
}

// update is what a request asks for; nil is nothing.
type update struct{ path, content, expect *string }

// judge judges an update of a memory. noop: it changes nothing.
func (s *store) judge(m *memory, u update) (path, content string, noop bool, r *refusal) {
	if m != nil {
		path, content = m.path, m.content
	}
	if u.path != nil {
		var ok bool
		if path, ok = canonical(*u.path); !ok {
			return "", "", false, invalid
		}
	}
	if u.content != nil {
		content = *u.content
	}
	switch {
	case u.path == nil && u.content == nil:
		return "", "", false, invalid
	case s.deleted || m == nil:
		return "", "", false, notFound
	case path == m.path && content == m.content:
		return path, content, true, nil
	case u.expect != nil && *u.expect != sum(m.content):
		return "", "", false, precondition
	case len(content) > maxContent || s.archived:
		return "", "", false, invalid
	case path != m.path && len(s.blocking(path, m.id)) > 0:
		return "", "", false, pathConflict
	}
	return path, content, false, nil
}

// item is one of a list of memories: a memory, or what stands for those below a path.
type item struct {
	path   string
	memory *memory
}

// list is what is below a prefix, in the order of the bytes.
func (s *store) list(prefix string, depth int) (all []item) {
	prefix = norm.NFC.String(prefix)
	seen := map[string]item{}
	for _, m := range s.memories {
		below, ok := strings.CutPrefix(m.path, prefix)
		if !ok {
			continue
		}
		one := item{m.path, m}
		if name, _, deeper := strings.Cut(strings.TrimPrefix(below, "/"), "/"); deeper && depth == 1 {
			one = item{path: strings.TrimSuffix(prefix, "/") + "/" + name + "/"}
		}
		seen[one.path] = one
	}
	for _, path := range slices.Sorted(maps.Keys(seen)) {
		all = append(all, seen[path])
	}
	return all
}

// filter is what a list of versions is asked for; "" and a zero time are anything.
type filter struct {
	memoryID, operation, keyID string
	from, to                   time.Time
}

func (s *store) history(f filter, keyID string) (all []*version) {
	for _, v := range slices.Backward(s.versions) {
		if (f.memoryID == "" || v.memoryID == f.memoryID) && (f.operation == "" || v.operation == f.operation) && (f.keyID == "" || f.keyID == keyID) &&
			(f.from.IsZero() || !v.created.Before(f.from)) && (f.to.IsZero() || !v.created.After(f.to)) {
			all = append(all, v)
		}
	}
	return all
}

// redact judges the erasing of a version.
func (s *store) redact(v *version) *refusal {
	if s.deleted || v == nil {
		return notFound
	}
	if m := s.memories[v.memoryID]; m != nil && m.head == v {
		return conflict
	}
	return nil
}
