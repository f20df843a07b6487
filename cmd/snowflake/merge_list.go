package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// list is a CSV file that "merge run" writes if a flag asks for it.
type list struct{ flag, path, heading string }

// replaceable refuses a file that is not such a list, before the merge takes hours. The list of an
// earlier run is accepted, because a command that is repeated has the same flags.
func (l list) replaceable() (err error) {
	other := fmt.Errorf("%w: %s: the file %s exists and is not such a list: choose another name", errRefused,
		l.flag, l.path)
	info, err := os.Stat(l.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if info, err := os.Stat(filepath.Dir(l.path)); err != nil || !info.IsDir() {
			return usagef("merge run: %s: there is no directory %s", l.flag, filepath.Dir(l.path))
		}
		return nil
	case err == nil && info.IsDir():
		return fmt.Errorf("%w: %s: %s is a directory: choose the name of a file", errRefused,
			l.flag, l.path)
	case err == nil && !info.Mode().IsRegular():
		return other
	}
	file, err := os.Open(l.path)
	if err != nil {
		return fmt.Errorf("%s: %w", l.flag, err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	first, err := bufio.NewReader(file).ReadString('\n')
	if first == l.heading || first == "" && errors.Is(err, io.EOF) {
		return nil
	}
	return other
}

// sameFile tells whether two paths name the same file. The file need not exist.
func sameFile(a, b string) bool {
	a, errA := filepath.Abs(a)
	b, errB := filepath.Abs(b)
	return a == b && errA == nil && errB == nil
}

// write replaces the file atomically: a reader sees the old content or the complete new one.
func (l list) write(fn func(io.Writer) error) (err error) {
	file, err := os.CreateTemp(filepath.Dir(l.path), ".merge-*")
	if err != nil {
		return l.unwritten(err)
	}
	err = errors.Join(fn(file), file.Sync(), file.Close())
	if err == nil {
		err = os.Rename(file.Name(), l.path)
	}
	if err != nil {
		return errors.Join(l.unwritten(err), os.Remove(file.Name()))
	}
	return nil
}

func (l list) unwritten(err error) error {
	return fmt.Errorf("all rows are merged, but %s cannot be written: %w: run the command again to write it",
		l.path, err)
}
