package history

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"mneme/memory"
	"mneme/versionlog"
)

// Difference is a memory that is not the same in two states of a store: nil where it is not
// there. One that has another name, too, is one difference.
type Difference struct {
	From, To *versionlog.Version
}

// Differences returns the memories at and below a path that differ between two states, in the
// order of their paths. It holds what differs in memory, not the states. Directories are passed
// over, as they have no content.
func Differences(ctx context.Context, s *memory.Store, from, to versionlog.State, path string) ([]Difference, error) {
	var all []Difference
	gone := map[string]int{} // by memory id: where in all it is only in from
	came := map[string]int{}
	for d, err := range SideBySide(from.Heads(ctx, path, ""), to.Heads(ctx, path, "")) {
		if err != nil {
			return nil, err
		}
		switch {
		case d.From != nil && d.To != nil && (d.From.Digest == d.To.Digest || d.From.IsDir()):
			continue
		case d.From == nil && d.To.IsDir(), d.To == nil && d.From.IsDir():
			continue
		case d.To == nil:
			gone[d.From.MemoryID] = len(all)
		case d.From == nil:
			came[d.To.MemoryID] = len(all)
		}
		all = append(all, d)
	}
	renamed := map[int]bool{}
	for id, i := range gone {
		if j, ok := came[id]; ok {
			all[j].From, renamed[i] = all[i].From, true
		}
	}
	kept := all[:0]
	for i, d := range all {
		if !renamed[i] {
			kept = append(kept, d)
		}
	}
	return slices.Clip(kept), nil
}

// SideBySide yields what two walks in the order of their paths have at each path.
func SideBySide(a, b iter.Seq2[versionlog.Version, error]) iter.Seq2[Difference, error] {
	return func(yield func(Difference, error) bool) {
		nextA, stopA := iter.Pull2(a)
		defer stopA()
		nextB, stopB := iter.Pull2(b)
		defer stopB()
		va, errA, moreA := nextA()
		vb, errB, moreB := nextB()
		for moreA || moreB {
			if errA != nil || errB != nil {
				if errA == nil {
					errA = errB
				}
				yield(Difference{}, errA)
				return
			}
			order := strings.Compare(va.Path, vb.Path)
			if !moreA {
				order = 1
			} else if !moreB {
				order = -1
			}
			var d Difference
			if order <= 0 {
				v := va
				d.From = &v
				va, errA, moreA = nextA()
			}
			if order >= 0 {
				v := vb
				d.To = &v
				vb, errB, moreB = nextB()
			}
			if !yield(d, nil) {
				return
			}
		}
	}
}

// FilePatch is a difference in the form of Patch.
type FilePatch struct {
	Difference
	Text string
}

// Patches yields the patches of differences in their order. It reads their contents together, as
// many as are worth it. Where a content is lost or was erased, the difference comes with the error,
// without a text, and the next one follows.
func Patches(ctx context.Context, s *memory.Store, differences []Difference) iter.Seq2[FilePatch, error] {
	return func(yield func(FilePatch, error) bool) {
		for len(differences) > 0 {
			var heads []*memory.Head
			n, size := 0, int64(0)
			for n < len(differences) && (n == 0 || len(heads) < s.BatchSize() && size < MaxReadAhead) {
				for _, v := range []*versionlog.Version{differences[n].From, differences[n].To} {
					if v != nil {
						heads, size = append(heads, memory.NewHead(v)), size+v.Size
					}
				}
				n++
			}
			contents := s.Contents(ctx, heads)
			for _, d := range differences[:n] {
				var sides [2]Side
				var gone error
				for i, v := range []*versionlog.Version{d.From, d.To} {
					if v == nil {
						continue
					}
					data := contents[0]
					if contents = contents[1:]; data == nil && v.Size > 0 {
						var err error
						if data, err = s.Content(ctx, *v); err != nil {
							gone = err
						}
					}
					sides[i] = SideOf(s, v.Path, *v, data)
				}
				if gone != nil {
					if !yield(FilePatch{Difference: d}, gone) || !memory.IsLost(gone) && !errors.Is(gone, memory.ErrRedacted) {
						return
					}
					continue
				}
				if !yield(FilePatch{d, Patch(sides[0], sides[1], true)}, nil) {
					return
				}
			}
			differences = differences[n:]
		}
	}
}

// SideOf returns the side of a patch that is a version at a path.
func SideOf(s *memory.Store, path string, v versionlog.Version, content []byte) Side {
	return Side{Path: path, Label: fmt.Sprintf("%s:%s@%d", s.Info().Slug, v.Path, v.Seq), Text: content}
}
