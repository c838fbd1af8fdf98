package crashfs

import (
	"encoding/binary"
	"hash/maphash"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
)

// Share says how much of the unsynced data a crash leaves.
type Share string

// The shares. Half of the data is every unsynced block of 4,096 bytes, and
// every truncation, kept or lost by itself. Half of the names is the first
// half of the changes, in their order: a file system with a journal loses
// them from the end.
const (
	None Share = "none"
	Half Share = "half"
	All  Share = "all"
)

// Keep says what of the unsynced data and of the unsynced names a crash leaves.
type Keep struct {
	Data, Names Share
}

// String names the share of data and the share of names.
func (k Keep) String() string { return string(k.Data) + " data, " + string(k.Names) + " names" }

const block = 4096

// Disk is what is known to be on the disk after some calls, and what may be.
// A name becomes durable when its directory is synced, data when its file is;
// neither makes the other durable.
type Disk struct {
	dirs    map[uint64]map[string]uint64 // durable names
	files   map[uint64][]byte            // durable content; replaced, never changed in place
	unsaved map[uint64][]Op              // data, by file
	names   []Op                         // changes of names not yet durable, in order
}

// NewDisk returns an empty disk.
func NewDisk() *Disk {
	return &Disk{
		dirs:  map[uint64]map[string]uint64{Root: {}},
		files: map[uint64][]byte{}, unsaved: map[uint64][]Op{},
	}
}

// Do replays one call.
func (d *Disk) Do(op Op) {
	switch op.Kind {
	case Create, Mkdir, Unlink, Rename:
		d.names = append(d.names, op)
	case Write, Truncate:
		d.unsaved[op.Inode] = append(d.unsaved[op.Inode], op)
	case Fsync:
		if todo := d.unsaved[op.Inode]; len(todo) > 0 {
			d.files[op.Inode] = applyData(d.files[op.Inode], todo, nil)
			delete(d.unsaved, op.Inode)
		}
	case FsyncDir:
		d.syncNames(op.Inode)
	}
}

// syncNames makes the names of a directory durable. A rename is one step: it
// takes along the directory that it left or came to.
func (d *Disk) syncNames(dir uint64) {
	synced := map[uint64]bool{dir: true}
	for grown := true; grown; {
		grown = false
		for _, op := range d.names {
			if op.Kind == Rename && synced[op.Dir] != synced[op.ToDir] {
				synced[op.Dir], synced[op.ToDir], grown = true, true, true
			}
		}
	}
	d.names = slices.DeleteFunc(d.names, func(op Op) bool {
		if synced[op.Dir] {
			applyName(d.dirs, op)
		}
		return synced[op.Dir]
	})
}

func applyName(dirs map[uint64]map[string]uint64, op Op) {
	in := func(dir uint64) map[string]uint64 {
		if dirs[dir] == nil {
			dirs[dir] = map[string]uint64{}
		}
		return dirs[dir]
	}
	switch op.Kind {
	case Create:
		in(op.Dir)[op.Name] = op.Inode
	case Mkdir:
		in(op.Dir)[op.Name] = op.Inode
		in(op.Inode)
	case Unlink:
		delete(in(op.Dir), op.Name)
	case Rename:
		moved, ok := in(op.Dir)[op.Name]
		if ok {
			delete(in(op.Dir), op.Name)
			in(op.ToDir)[op.ToName] = moved
		}
	}
}

// applyData returns content after writes and truncations. With random, each
// block of them is lost or kept.
func applyData(content []byte, todo []Op, random *rand.Rand) []byte {
	content = slices.Clone(content)
	for _, op := range todo {
		if op.Kind == Truncate {
			if random == nil || random.IntN(2) == 0 {
				content = resize(content, op.Size)
			}
			continue
		}
		for data, offset := op.Data, op.Offset; len(data) > 0; {
			n := min(int64(len(data)), block-offset%block)
			if random == nil || random.IntN(2) == 0 {
				content = overwrite(content, data[:n], offset)
			}
			data, offset = data[n:], offset+n
		}
	}
	return content
}

// Image is what a crash leaves. Paths are below the root; directories end in a
// slash and have no content.
type Image map[string][]byte

// Image returns what a crash leaves at this moment. The seed decides which
// half of the data it is.
func (d *Disk) Image(keep Keep, seed uint64) Image {
	random := rand.New(rand.NewPCG(seed, 0))
	dirs := map[uint64]map[string]uint64{}
	for id, names := range d.dirs {
		dirs[id] = maps.Clone(names)
	}
	kept := map[Share]int{None: 0, Half: len(d.names) / 2, All: len(d.names)}[keep.Names]
	for _, op := range d.names[:kept] {
		applyName(dirs, op)
	}
	image := Image{}
	d.walk(dirs, Root, "", image, keep.Data, random)
	return image
}

func (d *Disk) walk(dirs map[uint64]map[string]uint64, dir uint64, at string, image Image, keep Share, random *rand.Rand) {
	for _, name := range slices.Sorted(maps.Keys(dirs[dir])) {
		id := dirs[dir][name]
		if _, ok := dirs[id]; ok {
			image[at+name+"/"] = nil
			d.walk(dirs, id, at+name+"/", image, keep, random)
			continue
		}
		content, todo := d.files[id], d.unsaved[id]
		switch {
		case len(todo) == 0 || keep == None:
		case keep == Half:
			content = applyData(content, todo, random)
		default:
			content = applyData(content, todo, nil)
		}
		image[at+name] = content
	}
}

var sumSeed = maphash.MakeSeed()

// Sum returns a number that only equal images share, within one process.
func (i Image) Sum() uint64 {
	var h maphash.Hash
	h.SetSeed(sumSeed)
	for _, name := range i.Names() {
		var sizes [16]byte
		binary.LittleEndian.PutUint64(sizes[:], uint64(len(name)))
		binary.LittleEndian.PutUint64(sizes[8:], uint64(len(i[name])))
		_, _ = h.Write(sizes[:])
		_, _ = h.WriteString(name)
		_, _ = h.Write(i[name])
	}
	return h.Sum64()
}

// WriteTo makes the image's files in an existing directory.
func (i Image) WriteTo(dir string) error {
	for _, name := range i.Names() {
		var err error
		if path := filepath.Join(dir, name); name[len(name)-1] == '/' {
			err = os.Mkdir(path, 0o700)
		} else {
			err = os.WriteFile(path, i[name], 0o600)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Names returns the image's paths in order.
func (i Image) Names() []string { return slices.Sorted(maps.Keys(i)) }
