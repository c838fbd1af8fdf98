package fusefs

import (
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"mneme/fusefs/tree"
)

// A file whose name says that it is some program's scratch file is not a
// memory. There are two kinds.
type scratchKind int

const (
	// ordinary names are memories.
	ordinary scratchKind = iota
	// editorScratch stays in the mount that made it, whatever its bytes, until
	// it is renamed to an ordinary name, and is gone with the mount.
	editorScratch
	// temporary names are made to be renamed over a target at once. One that
	// is still there temporaryLife after it was last closed becomes a memory.
	temporary
)

const (
	temporaryLife = 2 * time.Second
	// maxScratchBytes bounds an editor's scratch file, which lives in RAM.
	maxScratchBytes = 64 << 20
)

var editorNames = regexp.MustCompile(`^(?:` +
	`\..*\.sw[a-z]x?` + // vim: swap, and whether it can make one
	`|.*~` + // vim, emacs, nano: backup
	`|\.#.*` + // emacs: lock
	`|#.*#` + // emacs: autosave
	`|\.~.+` + // LibreOffice: lock; Jupyter: copy of the file that it saves over
	`|\..+\.bak_[0-9]{10,}_[0-9a-z]*\.tmp` + // Roo Code: what it saves over
	`|.+___jb_old___` + // JetBrains: what it saves over
	`|\.goutputstream-.*` + // GLib
	`|.*\.kate-swp` +
	`|\.nfs[0-9a-f]{16,}` +
	`|\.fuse_hidden[0-9a-f]+` +
	`)$`)

var temporaryNames = regexp.MustCompile(`^(?:` +
	`sed[A-Za-z0-9]{6}` + // GNU sed -i
	`|XX[A-Za-z0-9]{6}` + // perl -i
	`|tmp[a-z0-9_]{8}` + // Python tempfile
	`|tmp_(?:obj|pack|idx|rev)_[A-Za-z0-9]{6}` + // git
	`|\.?.*\.tmp` +
	`|.*\.tmp[.-].*` + // NAME.tmp.PID.TIME, .tmp-PID-UUID
	`|\.tmp.*` +
	`|.*\.vsctmp` + // Visual Studio Code
	`|.+___jb_tmp___` + // JetBrains
	`|.+\.new` +
	`|.+\.incomplete` + // Hugging Face
	`|.+\.crdownload` + // Chrome
	`|.+\.[0-9a-z]{8}\.partial` + // rclone
	`|d2utmp[A-Za-z0-9]{6}` + // dos2unix
	`|.+\.isorted` +
	`|\.ansible_tmp.*` +
	`)$`)

// mkstempNames end in a dot and six random characters: rsync's .NAME.XXXXXX and
// the like. A real suffix of six letters has neither digits nor capitals.
var mkstempNames = regexp.MustCompile(`^\..+\.([A-Za-z0-9]{6})$`)

var random = regexp.MustCompile(`[0-9A-Z]`)

// s3Names end in a dot and eight hexadecimal digits of both cases, as the AWS CLI and boto3
// download.
var s3Names = regexp.MustCompile(`.\.([0-9a-fA-F]*(?:[0-9a-f][A-F]|[A-F][0-9a-f])[0-9a-fA-F]*)$`)

// backupNames are as Helix renames what it saves over.
var backupNames = regexp.MustCompile(`^(.+)([A-Za-z0-9]{6})\.bck$`)

// exclusiveNames are as rsync (.NAME.XXXXXX), patch (NAME.oXXXXXX), gawk -i
// inplace (NAME.gawk.XXXXXX), emacs (tmpXXXXXX) and others with mkstemp
// (NAME.XXXXXX) make them. They say something only of a file that was made with
// O_EXCL, as these do.
var exclusiveNames = regexp.MustCompile(`^(?:` +
	`\..+\.[A-Za-z0-9]{6}` +
	`|.+\.o[A-Za-z0-9]{6}` +
	`|.+\.gawk\.[A-Za-z0-9]{6}` +
	`|tmp[A-Za-z0-9]{6}` +
	`|.+\.([A-Za-z0-9]{6})` +
	`)$`)

// numberedNames end in a number that Go's os.CreateTemp, renameio or gofmt made up.
// Shorter ones are dates, versions and counters.
var numberedNames = regexp.MustCompile(`[^0-9][0-9]{9,19}$`)

// atomicNames are those of npm's write-file-atomic, the target's and a hash, which
// it makes without O_EXCL.
var atomicNames = regexp.MustCompile(`^(.+)\.([1-9][0-9]{8,9})$`)

// madeUp reports whether a file that is made in dir, with these flags, has a name
// that the program made up in order to rename it later.
//
// The files that mkstemp, mktemp and CreateTemp make are open for reading and writing: cp, tar
// and rsync make every file with O_EXCL, but only write it.
func madeUpLocked(dir *tree.Entry, name string, flags uint32, now time.Time) bool {
	exclusive := flags&syscall.O_EXCL != 0
	if exclusive && fromMkstemp(name) {
		return true
	}
	if exclusive && flags&syscall.O_ACCMODE == syscall.O_RDWR && (numberedNames.MatchString(name) || mktempNames.MatchString(name)) {
		return true
	}
	if exclusive && flags&syscall.O_ACCMODE == syscall.O_RDWR && isBesideLocked(dir, name) {
		return true // .NET's File.Replace copies what it replaces
	}
	m := atomicNames.FindStringSubmatch(name)
	if m == nil || dir.ChildLocked(m[1]) == nil {
		return false
	}
	number, err := strconv.ParseInt(m[2], 10, 64)
	return err == nil && number < 1<<32 && now.Sub(time.Unix(number, 0)).Abs() > 24*time.Hour // NAME.$(date +%s) is a backup
}

// isBesideLocked reports whether a name is that of a memory in dir and a suffix. Locks are for
// all sessions.
func isBesideLocked(dir *tree.Entry, name string) bool {
	i := strings.LastIndexByte(name, '.')
	return i > 0 && !lockNames.MatchString(name[i:]) && dir.ChildLocked(name[:i]).IsMemoryLocked()
}

// mktempNames are as mktemp makes them when it is told no name.
var mktempNames = regexp.MustCompile(`^tmp\.[A-Za-z0-9]{10}$`)

// fromMkstemp reports whether a file made with O_EXCL under a name is one that
// a program made up to rename it later.
func fromMkstemp(name string) bool {
	m := exclusiveNames.FindStringSubmatch(name)
	return m != nil && (m[1] == "" || random.MatchString(m[1]))
}

// isProbe reports whether a name is one under which vim makes an empty file with
// O_EXCL, and removes it, to see whether it may make files: 4913, or the next number
// 123 further that is free. With content it is an ordinary file.
func isProbe(name string) bool {
	const first, step, most = 4913, 123, 16
	n, err := strconv.Atoi(name)
	return err == nil && n >= first && (n-first)%step == 0 && n < first+most*step
}

// classify says what kind of file a name in dir is for.
func classifyLocked(dir *tree.Entry, name string) scratchKind {
	if !isPlain(name) {
		if kind := kindOfName(name); kind != ordinary {
			return kind
		}
	}
	if strings.HasSuffix(name, ".lock") && isWithinLocked(dir, ".git") || isWithinLocked(dir, ".~tmp~") || isWithinLocked(dir, ".rsync-partial") {
		return temporary // the latter two are where rsync has files until all of them are there
	}
	return ordinary
}

// kindOfName says what kind of file a name is for in any directory.
func kindOfName(name string) scratchKind {
	if editorNames.MatchString(name) {
		return editorScratch
	}
	if temporaryNames.MatchString(name) {
		return temporary
	}
	if m := mkstempNames.FindStringSubmatch(name); m != nil && random.MatchString(m[1]) {
		return temporary
	}
	if m := s3Names.FindStringSubmatch(name); m != nil && len(m[1]) == 8 {
		return temporary
	}
	return ordinary
}

// isPlain reports that a name, such as notes.md, is ordinary to kindOfName, whose patterns take
// a hundred times as long to say so. It does not know all such names.
func isPlain(name string) bool {
	dot := strings.LastIndexByte(name, '.')
	suffix := name[dot+1:]
	if dot <= 0 || name[0] == '.' || len(suffix) < 2 || len(suffix) > 3 || suffix == "new" || strings.Contains(name, ".tmp") {
		return false
	}
	return strings.Trim(suffix, "abcdefghijklmnopqrstuvwxyz") == ""
}

// isPassing reports whether an empty directory of a name is in its mount only: sandboxes
// make .git, .agents and the like to have a place for a mount, and libraries make
// directories for temporary files. Something below it brings it into the log. Locks are
// for all sessions.
func isPassing(name string) bool {
	return (name[0] == '.' || temporaryNames.MatchString(name)) && !lockNames.MatchString(name)
}

var lockNames = regexp.MustCompile(`(?i)lo?ck|mutex`)

// beyondLocked reports whether a stage of n holds more than a memory may have, which only an
// editor's scratch file can.
func beyondLocked(n *tree.Entry, st *stage) bool {
	return int64(len(st.data)) > storeOf(n).memory.Info().Limits.MaxMemoryBytes
}

// isWithinLocked reports whether a directory is one of that name or lies in one.
func isWithinLocked(n *tree.Entry, name string) bool {
	for ; n != nil; n = n.ParentLocked() {
		if n.NameLocked() == name {
			return true
		}
	}
	return false
}

// lingerLocked makes a memory of a temporary file unless that is renamed, removed
// or opened again within temporaryLife.
func (fs *fileSystem) lingerLocked(n *tree.Entry) {
	changes := stageOf(n).changes
	fs.tasks.Go(func() {
		select {
		case <-fs.ctx.Done():
			return
		case <-time.After(fs.patience.temporary):
		}
		fs.mu.Lock()
		st := stageOf(n)
		idle := st != nil && st.writers == 0 && st.changes == changes && n.IsUnloggedLocked()
		if idle {
			st.writers++
		}
		fs.mu.Unlock()
		if idle {
			fs.commitUnheard(n, st, lingered)
			fs.endWriter(n, st, fs.endLingerLocked)
		}
	})
}

// endLingerLocked ends the writer that linger was. A file that could not become a
// memory stays in this mount.
func (fs *fileSystem) endLingerLocked(n *tree.Entry, st *stage) {
	st.writers--
	defer fs.accountStageLocked(n, st)
	switch {
	case st.writers > 0 || stageOf(n) != st:
	case st.err != 0:
		fs.giveUpLocked(n)
	case !n.IsUnloggedLocked():
		setStageLocked(n, nil)
	}
}
