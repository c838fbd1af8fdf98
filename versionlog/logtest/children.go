package logtest

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"mneme/versionlog"
)

var childrenTests = map[string]func(*suite){
	"Names":      testChildren,
	"Empty":      testChildrenEmpty,
	"Deep":       testChildrenDeep,
	"Pages":      testChildrenPages,
	"StopsEarly": testChildrenStopsEarly,
	"SlowWalk":   testChildrenSlowWalk,
}

func (s *suite) children(dir string) []versionlog.Version {
	s.Helper()
	return collect(s.T, s.log.Children(s.Context(), s.store.ID, dir))
}

// checkChildren holds what Children yields for a directory against the heads.
func (s *suite) checkChildren(dir string) {
	s.Helper()
	checkChildren(s, s.heads("/"), dir, s.children(dir))
}

// checkChildren checks that got has, for every name in dir that the heads have, one of the heads,
// in the order of their paths.
func checkChildren(t fataler, heads []versionlog.Version, dir string, got []versionlog.Version) {
	t.Helper()
	below := strings.TrimSuffix(dir, "/") + "/"
	names, live := map[string]bool{}, map[string]versionlog.Version{}
	for _, v := range heads {
		live[v.Path] = v
		if rest, ok := strings.CutPrefix(v.Path, below); ok {
			if name, _, _ := strings.Cut(rest, "/"); name != "" { // of a directory itself
				names[name] = true
			}
		}
	}
	if !slices.IsSorted(paths(got)) {
		t.Fatal(fmt.Sprintf("children of %s are %q, not in the order of their paths", dir, paths(got)))
	}
	seen := map[string]bool{}
	for _, v := range got {
		rest, ok := strings.CutPrefix(v.Path, below)
		name, _, _ := strings.Cut(rest, "/")
		if !ok || seen[name] || live[v.Path] != v {
			t.Fatal(fmt.Sprintf("children of %s: %+v is no head in there, or its name came before; all are %q", dir, v, paths(got)))
		}
		seen[name] = true
	}
	if !maps.Equal(seen, names) {
		t.Fatal(fmt.Sprintf("children of %s have the names %v, want %v", dir, seen, names))
	}
}

// testChildren has names whose order interleaves with the slash's place.
func testChildren(s *suite) {
	for _, path := range []string{
		"/a!", "/a/b", "/a/c", "/a0", "/a/0", "/ab", "/a-/x", "/a./x/y", "/a00", "/b", "/\u00e9", "/\u00e9x/\u00e9", "/\uffee/y",
		"/\U0001F600", "/\U0010ffff/\U0010ffff/1", "/\U0010ffff/\U0010ffff/2", "/\U0010ffff\U0010ffff", "/d/sub/1", "/d/sub/2", "/d/sub0", "/d/sub!", "/d/suc",
	} {
		s.put(path, path)
	}
	s.put("/gone/b", "1")
	s.commit(remove("/gone/b", anything))
	s.put("/d/moved", "1")
	s.commit(rename("/d/moved", "/moved/away", anything))
	for _, dir := range []string{"/", "/a", "/a-", "/a.", "/a./x", "/d", "/d/sub", "/\u00e9x", "/\uffee", "/\U0010ffff", "/\U0010ffff/\U0010ffff", "/moved", "/gone"} {
		s.checkChildren(dir)
	}
	s.equal(paths(s.children("/d/sub")), []string{"/d/sub/1", "/d/sub/2"})
	s.equal(len(s.children("/d")), 4)
}

// testChildrenEmpty: where there is no directory there are no children.
func testChildrenEmpty(s *suite) {
	s.equal(len(s.children("/")), 0)
	s.put("/a/b", "1")
	s.commit(rename("/a/b", "/c", anything))
	for _, dir := range []string{"/a", "/b", "/c", "/c/d", "/c0"} {
		s.equal(len(s.children(dir)), 0)
	}
}

func testChildrenDeep(s *suite) {
	path := ""
	for i := range 19 {
		path += fmt.Sprint("/", i)
		s.put(path+"/file", "1")
	}
	for dir := path; dir != ""; dir = dir[:strings.LastIndexByte(dir, '/')] {
		s.checkChildren(dir)
	}
	s.checkChildren("/")
}

// testChildrenPages has more names than a page of any backend, among them
// directories that fill one.
func testChildrenPages(s *suite) {
	const names, perCommit = 300, 70 // few enough for one commit
	var changes []versionlog.Change
	flush := func() {
		s.commit(changes...)
		changes = nil
	}
	for i := range names {
		path := fmt.Sprintf("/d/%03d", i)
		files := []string{""}
		switch {
		case i == 7 || i == 150:
			files = nil
			for j := range 2 * perCommit {
				files = append(files, fmt.Sprintf("/%03d", j))
			}
		case i%3 == 0:
			files = []string{"/x", "/y/z"}
		}
		for _, file := range files {
			if changes = append(changes, put(path+file, "1", anything)); len(changes) == perCommit {
				flush()
			}
		}
	}
	flush()
	s.equal(len(s.children("/d")), names)
	s.checkChildren("/d")
	s.checkChildren("/d/007")
	s.checkChildren("/")
}

func testChildrenStopsEarly(s *suite) {
	s.put("/a/1", "1")
	s.put("/b", "1")
	for range 20 {
		for range s.log.Children(s.Context(), s.store.ID, "/") {
			break
		}
	}
	s.put("/b", "2")
}

// testChildrenSlowWalk: the log can be written to from within a walk.
func testChildrenSlowWalk(s *suite) {
	s.put("/a/1", "1")
	s.put("/b", "1")
	for v, err := range s.log.Children(s.Context(), s.store.ID, "/") {
		s.must(err)
		s.put(v.Path, "2")
	}
	s.equal(s.tip().Seq, uint64(4))
}
