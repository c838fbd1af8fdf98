package sqlitelog

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"mneme/versionlog"
)

// endingContext ends when it has been asked so often whether it has.
type endingContext struct {
	context.Context
	asked int
}

func (c *endingContext) Err() error {
	if c.asked--; c.asked < 0 {
		return context.Canceled
	}
	return nil
}

// TestDeleteInSlices: others commit between the slices of a deletion. One that is
// interrupted is gone on with by the next, also of the same store, and leaves nothing of
// it; another store keeps everything.
func TestDeleteInSlices(t *testing.T) {
	dir, s := newLog(t)
	l := openTest(t, dir, nil)
	kept := addStore(t, l, "kept")
	for _, id := range []string{s.ID, kept.ID} {
		many := &versionlog.Proposal{Key: versionlog.NewKey()}
		for i := range 3 * dropRows {
			p := withContent(fmt.Sprintf("/%d", i), strings.Repeat(fmt.Sprintf("%06d\n", i), 300), versionlog.ExpectAny())
			many.Changes = append(many.Changes, p.Changes...)
		}
		if _, err := l.Commit(t.Context(), id, many); err != nil {
			t.Fatal(err)
		}
	}
	num := texts(t, raw(t, dir), "SELECT num FROM stores WHERE id = '"+s.ID+"'")[0]
	rows := func(which string) (all string) {
		for _, table := range []string{"commits", "versions", "paths", "blobs"} {
			all += texts(t, raw(t, dir), "SELECT count(*) FROM "+table+" WHERE store "+which)[0] + " "
		}
		return all
	}
	before, others := rows("= "+num), rows("<> "+num)

	err := l.DeleteStore(&endingContext{t.Context(), 12}, s.ID)
	if err == nil || !strings.Contains(err.Error(), "again by its id") {
		t.Fatalf("an interrupted deletion ends with %v", err)
	}
	if _, err := l.Store(t.Context(), s.ID); !errors.Is(err, versionlog.ErrNotFound) {
		t.Errorf("the store that is being deleted: %v", err)
	}
	if left := rows("= " + num); left == before || left == "0 0 0 0 " {
		t.Fatalf("an interrupted deletion leaves %sof %s", left, before)
	}
	other := openTest(t, dir, nil)
	slices := 0
	err = dropLeft(t.Context(), l.db, func(table leftTable, num int64) error {
		if slices++; slices == 2 {
			return context.Canceled
		}
		err := l.writer.transaction(t.Context(), func(ctx context.Context) error { return l.writer.dropRows(ctx, table, num) })
		if err == nil {
			_, err = other.Commit(t.Context(), kept.ID, withContent("/0", "between", versionlog.ExpectAny()))
		}
		return err
	})
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("between two slices: %v", err)
	}
	if err := l.DeleteStore(t.Context(), s.ID); !errors.Is(err, versionlog.ErrNotFound) {
		t.Errorf("deleting what is deleted: %v, want %v", err, versionlog.ErrNotFound)
	}
	if left := rows("= " + num); left != "0 0 0 0 " {
		t.Errorf("in the end there is %sof %s", left, before)
	}
	var commits, versions, paths, blobs int
	if _, err := fmt.Sscan(others, &commits, &versions, &paths, &blobs); err != nil {
		t.Fatal(err)
	}
	if now, want := rows("<> "+num), fmt.Sprintf("%d %d %d %d ", commits+1, versions+1, paths, blobs+1); now != want {
		t.Errorf("another store has %srows, want %s", now, want)
	}
}

// TestDeleteLongMessages: a slice of a deletion is no longer where the records are in
// frames, and the rows of their commits still have long messages.
func TestDeleteLongMessages(t *testing.T) {
	_, l, id := newFramed(t, 0)
	for i := range 12 {
		p := withContent(fmt.Sprint("/", i), "x", versionlog.ExpectAny())
		p.Message = strings.Repeat("ä", dropSlice/8)
		if _, err := l.Commit(t.Context(), id, p); err != nil {
			t.Fatal(err)
		}
	}
	packAll(t, l)
	if err := l.writer.transaction(t.Context(), func(context.Context) error { return l.writer.run(dropStore, int64(1)) }); err != nil {
		t.Fatal(err)
	}
	slices := 0
	err := dropLeft(t.Context(), l.db, func(table leftTable, num int64) error {
		if table.name == "commits" {
			slices++
		}
		return l.writer.transaction(t.Context(), func(ctx context.Context) error { return l.writer.dropRows(ctx, table, num) })
	})
	if err != nil || slices < 3 {
		t.Errorf("12 commits whose messages are a quarter of a slice each go in %d slices, %v", slices, err)
	}
}
