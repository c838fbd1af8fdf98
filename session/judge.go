package session

import (
	"slices"

	"mneme/cas"
	"mneme/memory"
)

// TakenBack returns the newest of the changes that yours, written over head, takes back; nil when
// there is none. content reads a version of at most memory.MostCompared bytes, or reports false.
// A version that cannot be read is not judged: damage must not make its file read-only.
//
// An empty text takes back every change that head shows: bytes that are then appended to it are
// not judged, and may be the text before the change. Where there is no head, since the session
// has removed it, the text is judged as if it were written over the newest change.
func TakenBack(changes []Change, head *memory.Head, yours []byte, content func(*memory.Head) ([]byte, bool)) *Change {
	if len(changes) == 0 {
		return nil
	}
	if head == nil {
		head = changes[len(changes)-1].To
	}
	if head.Digest() == cas.Sum(yours) {
		return nil
	}
	load, emptied := once(content), len(memory.Unpadded(yours)) == 0
	for i := range slices.Backward(changes) {
		one := &changes[i]
		newest := memory.SameText(one.To, head)
		if one.Known && newest && (emptied || digestOf(one.From) == cas.Sum(yours)) {
			return one
		}
		from, there := load(one.From)
		to, toThere := load(one.To)
		now, nowThere := load(head)
		if !there || !toThere || !nowThere {
			continue
		}
		written := yours
		if emptied {
			written = from
		}
		if one.Known && memory.TakesBack(from, to, now, written) {
			return one
		}
		if newest && memory.CutAt(to, yours, one.Cut) {
			return &Change{To: one.To, Cut: one.Cut}
		}
	}
	return nil
}

// once returns content for texts that are compared, each of which is read once. No
// version has no text.
func once(content func(*memory.Head) ([]byte, bool)) func(*memory.Head) ([]byte, bool) {
	texts := map[cas.Digest][]byte{}
	return func(v *memory.Head) ([]byte, bool) {
		if v == nil {
			return nil, true
		}
		if v.Size() > memory.MostCompared {
			return nil, false
		}
		data, there := texts[v.Digest()]
		if !there {
			if data, there = content(v); there {
				texts[v.Digest()] = data
			}
		}
		return data, there
	}
}

// MergeBack merges yours, which takes the change back, with head. content returns
// the text of a version, or nil.
func (c *Change) MergeBack(head *memory.Head, yours []byte, content func(*memory.Head) []byte) ([]byte, bool) {
	if c.Known && c.From == nil {
		return nil, false
	}
	theirs := content(head)
	under := theirs[:min(c.Cut, int64(len(theirs)))]
	if c.Known {
		under = content(c.From)
	}
	if theirs == nil || under == nil {
		return nil, false
	}
	return memory.Merge(under, theirs, yours)
}

func digestOf(v *memory.Head) cas.Digest {
	if v == nil {
		return cas.Sum(nil)
	}
	return v.Digest()
}
