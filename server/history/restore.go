package history

import (
	"context"

	"mneme/history"
	"mneme/internal/strictjson"
	"mneme/jsonview"
	"mneme/memory"
	"mneme/server/reply"
	"mneme/session"
	"mneme/versionlog"
)

// restoredJSON says what a restore of several memories has done.
type restoredJSON struct {
	Type    string                `json:"type"` // "restored"
	Path    string                `json:"path"`
	Seq     uint64                `json:"seq"`      // the commit after which it was so
	LastSeq uint64                `json:"last_seq"` // the last commit that was made; 0: there was nothing to do
	Changes map[versionlog.Op]int `json:"changes"`
	Left    []leftJSON            `json:"left"` // what others have changed meanwhile, or what is in the way
}

type leftJSON struct {
	Path string `json:"path"`
	Why  string `json:"why"`
}

// restore makes a version current again, or what is at and below a path what it was at a point.
func restore(ctx context.Context, c *call) (any, error) {
	o, err := strictjson.Parse(c.body, &strictjson.Limits{Depth: 2, Values: 100})
	if err != nil {
		return nil, err
	}
	path, err := o.String("path")
	if err != nil {
		return nil, err
	}
	id, byVersion, err := o.OptString("memory_version_id")
	if err != nil {
		return nil, err
	}
	at, byPoint, err := o.OptString("at")
	if err != nil {
		return nil, err
	}
	if err := o.Done(); err != nil {
		return nil, err
	}
	if byVersion == byPoint {
		return nil, reply.Invalidf("one of memory_version_id and at must be given")
	}
	s := session.New(c.store, &session.Options{ID: c.caller.Session})
	defer s.Close()
	if byVersion {
		return restoreVersion(ctx, c.store, s, path, id)
	}
	point, err := history.ParsePoint(at, c.now())
	if err != nil {
		return nil, err
	}
	if path == "" { // which ParsePrefix takes for the whole store
		return nil, reply.Invalidf("path: it is empty; all of the store is /")
	}
	if path, err = memory.ParsePrefix(path); err != nil {
		return nil, err
	}
	seq, err := history.ResolvePoint(ctx, c.store, point)
	if err != nil {
		return nil, err
	}
	done, err := s.RestoreTree(ctx, path, seq, nil)
	if err != nil {
		return nil, err
	}
	j := restoredJSON{Type: "restored", Path: path, Seq: seq, LastSeq: done.Last, Changes: done.Changes, Left: []leftJSON{}}
	for _, l := range done.Left {
		why := l.Why
		switch {
		case l.InTheWay != "":
			why = "in the way: " + l.InTheWay
		case why == "":
			why = "changed meanwhile"
		}
		j.Left = append(j.Left, leftJSON{l.Path, why})
	}
	return j, nil
}

func restoreVersion(ctx context.Context, st *memory.Store, s *session.Session, path, id string) (any, error) {
	path, err := memory.ParsePath(path)
	if err != nil {
		return nil, err
	}
	v, err := st.Version(ctx, id)
	if err != nil {
		return nil, err
	}
	if v.IsDir() || !v.Live() && !v.Redacted() {
		return nil, reply.Invalidf("memory_version_id: the version has no content")
	}
	restored, err := s.Restore(ctx, path, v, nil)
	if err != nil {
		return nil, err
	}
	return jsonview.NewVersion(st.Info().ID, restored), nil
}
