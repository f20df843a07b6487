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

// list is a file that a run writes on request.
type list struct{ flag, path, heading string }

// replaceable refuses files that are something else, before hours are spent. A list of an earlier run has
// to be replaceable, because whoever repeats a command repeats its flags.
func (l list) replaceable() (err error) {
	other := fmt.Errorf("%w: %s: there is a file %s, and it is no such list: name another one", errRefused,
		l.flag, l.path)
	info, err := os.Stat(l.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if info, err := os.Stat(filepath.Dir(l.path)); err != nil || !info.IsDir() {
			return usagef("merge run: %s: there is no directory %s", l.flag, filepath.Dir(l.path))
		}
		return nil
	case err == nil && info.IsDir():
		return fmt.Errorf("%w: %s: there is a directory %s, and it is no such list: name a file", errRefused,
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

// sameFile tells whether two paths are those of one file, which need not be there yet.
func sameFile(a, b string) bool {
	a, errA := filepath.Abs(a)
	b, errB := filepath.Abs(b)
	return a == b && errA == nil && errB == nil
}

// write makes the file in one go: whoever reads it finds all of it, or what was there before.
func (l list) write(fn func(io.Writer) error) (err error) {
	file, err := os.CreateTemp(filepath.Dir(l.path), ".merge-*")
	if err != nil {
		return fmt.Errorf("all is merged, but %s cannot be written: %w: run again to try again", l.path, err)
	}
	err = errors.Join(fn(file), file.Sync(), file.Close())
	if err == nil {
		err = os.Rename(file.Name(), l.path)
	}
	if err != nil {
		err = fmt.Errorf("all is merged, but %s cannot be written: %w: run again to try again", l.path, err)
		return errors.Join(err, os.Remove(file.Name()))
	}
	return nil
}
