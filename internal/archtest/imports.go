package archtest

import (
	"fmt"
	"slices"
	"strings"
)

// floors are the packages by how high they stand. Code imports from lower
// floors only.
var floors = map[string]int{
	"cmd/mneme": 13,

	"cmd/mneme/agent":    12,
	"cmd/mneme/memories": 12,
	"cmd/mneme/mount":    12,
	"cmd/mneme/past":     12,
	"cmd/mneme/serving":  12,
	"cmd/mneme/store":    12,
	"cmd/mneme/transfer": 12,
	"cmd/mneme/upkeep":   12,

	"cmd/mneme/sessions": 11,

	"cmd/mneme/listen": 10,
	"cmd/mneme/view":   10,

	"cmd/mneme/app": 9,

	"cmd/mneme/term": 4,

	"server": 9,

	"adopt":        8,
	"server/agent": 8,

	"daemon":         7,
	"mcp":            7,
	"plugin":         7,
	"server/api":     7,
	"server/events":  7,
	"server/history": 7,
	"server/manage":  7,
	"server/gate":    7,

	"fusefs":         6,
	"replicate":      6,
	"server/access":  6,
	"server/openapi": 6,
	"server/reply":   6,
	"tools":          6,

	"archive":            5,
	"archive/gitstream":  5,
	"archive/frozen":     5,
	"archive/plaindir":   5,
	"archive/okf":        5,
	"backend":            5,
	"forget":             5,
	"jsonview":           5,
	"note":               5,
	"pack":               5,
	"session":            5,
	"fusefs/tree":        5,
	"fusefs/kernelcache": 5,
	"fusefs/virtual":     5,

	"undo": 4,

	"history": 3,
	"verify":  3,

	"memory":               2,
	"cache":                2,
	"gateway":              2,
	"gateway/wire":         2,
	"session/conflict":     2,
	"spool":                2,
	"witness":              2,
	"private":              2,
	"cas/dircas":           2,
	"cas/s3cas":            2,
	"cas/memcas":           2,
	"cas/castest":          2,
	"cas/sizecas":          2,
	"versionlog/sqlitelog": 2,
	"versionlog/dynamolog": 2,
	"versionlog/memlog":    2,
	"versionlog/snapshot":  2,

	"cas":        1,
	"secrets":    1,
	"versionlog": 1,

	"internal/awssetup":       1,
	"internal/objectversions": 1,

	"errkind": -1, // the floor that all stand on
	"finding": -1,

	"internal/durable":    0,
	"internal/agentdirs":  0,
	"internal/awsconf":    0,
	"internal/bytesize":   0,
	"internal/plural":     0,
	"internal/fusedev":    0,
	"internal/handover":   0,
	"internal/mountinfo":  0,
	"internal/openfiles":  0,
	"internal/quote":      0,
	"internal/safepath":   0,
	"internal/share":      0,
	"internal/wallclock":  0,
	"internal/sqlite":     0,
	"internal/lines":      0,
	"internal/strictjson": 0,
	"internal/xdg":        0,
}

// sideways is what may be imported from the same floor, importer first.
var sideways = map[[2]string]bool{
	{"gateway", "gateway/wire"}:                     true,
	{"versionlog", "cas"}:                           true,
	{"internal/agentdirs", "internal/strictjson"}:   true,
	{"internal/fusedev", "internal/mountinfo"}:      true,
	{"internal/fusedev", "internal/safepath"}:       true,
	{"internal/safepath", "internal/durable"}:       true,
	{"internal/safepath", "internal/mountinfo"}:     true,
	{"internal/sqlite", "internal/safepath"}:        true,
	{"internal/strictjson", "internal/quote"}:       true,
	{"server/reply", "server/access"}:               true,
	{"versionlog/dynamolog", "versionlog/snapshot"}: true,
}

// backends implement a contract; only package backend names them.
var backends = []string{
	"cas/dircas", "cas/s3cas", "cas/memcas",
	"versionlog/sqlitelog", "versionlog/dynamolog", "versionlog/memlog",
}

// openers may use a library of stores, which a URL names. Faces get open stores.
var openers = []string{"cmd/mneme", "adopt"}

// testOnly are the packages that serve tests, with all below them. They stand
// on no floor.
var testOnly = []string{"versionlog/logtest", "internal/archtest", "internal/testing", "tests"}

// standardOnly are the packages that import nothing from outside but the
// standard library.
var standardOnly = []string{"cas", "secrets", "versionlog"}

// owners say which packages may import a library, tests included but for SQLite.
var owners = map[string][]string{
	sqliteLibrary:                    {"internal/sqlite", "versionlog/sqlitelog"},
	"github.com/hanwen/go-fuse":      {"fusefs", "internal/fusedev", "internal/testing/barefs", "internal/testing/crashfs"},
	"github.com/dgraph-io/ristretto": {"cache"},
	"github.com/aws/":                {"cas/s3cas", "versionlog/dynamolog", "replicate", "internal/awsconf", "internal/awssetup", "internal/objectversions", "internal/testing/awstest"},
	"github.com/alecthomas/kong":     {"cmd/mneme", "cmd/mneme/mount"},
	"github.com/prometheus/":         {"cmd/mneme/listen", "cmd/mneme/mount", "server"},
	"github.com/klauspost/compress":  {"gateway/wire", "versionlog/sqlitelog", "versionlog/snapshot", "tests/harness"},
	"golang.org/x/mod":               {"witness"},
	"github.com/erofs/go-erofs":      {"archive/frozen"},
	"github.com/goccy/go-yaml":       {"archive/okf"},
	"github.com/getkin/kin-openapi":  {"internal/testing/openapitest"},
	mcpLibrary:                       {"mcp"},
}

const (
	sqliteLibrary = "github.com/ncruces/"
	mcpLibrary    = "github.com/modelcontextprotocol/"
)

func checkImports(f *file) []string {
	var broken []string
	for _, imported := range f.imports() {
		if why := forbidden(f, imported); why != "" {
			broken = append(broken, fmt.Sprintf("%s: imports %s: %s", f.name, imported, why))
		}
	}
	if _, known := floors[f.pkg()]; !known && !servesTests(f.pkg()) {
		broken = append(broken, fmt.Sprintf("%s: package %s has no floor; give it one in internal/archtest", f.name, f.pkg()))
	}
	return broken
}

// forbidden says why a file may not import a package, or "".
func forbidden(f *file, imported string) string {
	for library, pkgs := range owners {
		if library == sqliteLibrary && (f.test || servesTests(f.pkg())) {
			continue // tests damage a store behind mneme's back
		}
		if strings.HasPrefix(imported, library) && !slices.Contains(pkgs, f.pkg()) {
			return "only " + strings.Join(pkgs, ", ") + " may"
		}
	}
	own, isOwn := strings.CutPrefix(imported, module+"/")
	if f.test || servesTests(f.pkg()) {
		return ""
	}
	if !isOwn {
		if slices.Contains(standardOnly, f.pkg()) && strings.Contains(strings.Split(imported, "/")[0], ".") {
			return "the contracts use the standard library only"
		}
		return ""
	}
	if servesTests(own) {
		return "it is for tests only"
	}
	if slices.Contains(backends, own) && f.pkg() != "backend" {
		return "only backend names a backend"
	}
	if own == "backend" && !isAmong(f.pkg(), openers) {
		return "only " + strings.Join(openers, ", ") + " opens a URL"
	}
	if floors[own] >= floors[f.pkg()] && !sideways[[2]string{f.pkg(), own}] {
		return fmt.Sprintf("floor %d imports from below only, it is on floor %d", floors[f.pkg()], floors[own])
	}
	return ""
}

// servesTests reports whether pkg is one of testOnly or below one.
func servesTests(pkg string) bool { return isAmong(pkg, testOnly) }

// isAmong reports whether pkg is one of some packages or below one.
func isAmong(pkg string, some []string) bool {
	return slices.ContainsFunc(some, func(root string) bool {
		return pkg == root || strings.HasPrefix(pkg, root+"/")
	})
}
