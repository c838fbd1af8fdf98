package adopt

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"mneme/internal/quote"
	"mneme/internal/safepath"
)

// copyGit copies a git directory durably, with the modes and times of its files. It removes
// an earlier copy.
func copyGit(from, to string) error {
	if err := safepath.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return err
	}
	if err := os.RemoveAll(to); err != nil {
		return err
	}
	source, err := os.OpenRoot(from)
	if err != nil {
		return err
	}
	defer source.Close()
	if err := os.Mkdir(to, 0o700); err != nil {
		return err
	}
	target, err := os.OpenRoot(to)
	if err != nil {
		return err
	}
	defer target.Close()
	err = fs.WalkDir(source.FS(), ".", func(rel string, d fs.DirEntry, err error) error {
		if err != nil || rel == "." {
			return err
		}
		info, err := source.Lstat(rel)
		switch {
		case err != nil:
			return err
		case info.IsDir():
			return target.Mkdir(rel, info.Mode().Perm()|0o700)
		case !info.Mode().IsRegular():
			return fmt.Errorf("%s in the git directory is neither a file nor a directory", quote.Name(rel))
		}
		return copyGitFile(source, target, rel, info)
	})
	if err != nil {
		return fmt.Errorf("copy %s: %w", from, err)
	}
	dir, err := target.Open(".")
	if err != nil {
		return err
	}
	defer dir.Close()
	return unix.Syncfs(int(dir.Fd()))
}

func copyGitFile(source, target *os.Root, rel string, info fs.FileInfo) error {
	in, err := source.OpenFile(rel, os.O_RDONLY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := target.OpenFile(rel, os.O_WRONLY|os.O_CREATE|os.O_EXCL, info.Mode().Perm())
	if err != nil {
		return err
	}
	defer out.Close()
	if _, err := io.Copy(out, in); err != nil {
		return err
	}
	if err := out.Chmod(info.Mode().Perm()); err != nil {
		return err
	}
	if err := target.Chtimes(rel, info.ModTime(), info.ModTime()); err != nil {
		return err
	}
	return out.Close()
}
