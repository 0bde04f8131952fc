// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/pflag"
)

// FileOption is the file that a command writes, "" for standard output.
type FileOption struct {
	Output string
	Force  bool
}

// AddOutputFlags adds --output, with this usage, and --force.
func (o *FileOption) AddOutputFlags(fs *pflag.FlagSet, usage string) {
	fs.StringVarP(&o.Output, "output", "o", "", usage)
	fs.BoolVar(&o.Force, "force", false, "replace the file if it exists")
}

// TakeDash takes - for standard output.
func (o *FileOption) TakeDash() {
	if o.Output == StandardOutput {
		o.Output = ""
	}
}

// CheckOutput refuses a file that cannot be written, before the work is done.
func (o *FileOption) CheckOutput() error {
	return CheckNamed("-o", o.Output, o.Force)
}

// CheckFile refuses an output file that exists, before the work is done. Devices, pipes and links are never replaced.
func CheckFile(flag, path string, force bool) error {
	if path == "" {
		return BadInput("%s: name the file to write", flag)
	}
	if path == StandardOutput {
		return BadInput("%s -: this is not written to standard output: name a file, ./- if that is its name", flag)
	}
	info, err := os.Lstat(path)
	switch {
	case err == nil && info.IsDir():
		return BadInput("%s %s: it is a folder: name a file", flag, path)
	case err == nil && !info.Mode().IsRegular():
		return BadInput("%s %s: it is no regular file: name another one", flag, path)
	case err == nil && !force:
		return BadInput("%s %s: it exists: give --force to replace it, or another name", flag, path)
	case err != nil && !errors.Is(err, os.ErrNotExist):
		return BadInput("%s: %w", flag, err)
	}
	return nil
}

// WriteFile makes the file of a flag. It is whole or not there: what write writes has its name only at the end.
func WriteFile(flag, path string, force bool, mode os.FileMode, write func(w io.Writer) error) error {
	if err := CheckFile(flag, path, force); err != nil {
		return err
	}
	f, err := CreateBeside(path)
	if err != nil {
		return BadInput("%s %s: %w", flag, path, err)
	}
	err = finish(f, path, mode, func(w io.Writer) error {
		b := newBehind(w)
		return errors.Join(write(b), b.close())
	})
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

// ReplaceFile makes or replaces a file. At each moment it has the old content, if there was some, or all of what write
// writes.
func ReplaceFile(path string, mode os.FileMode, write func(w io.Writer) error) error {
	f, err := CreateBeside(path)
	if err != nil {
		return err
	}
	return finish(f, path, mode, write)
}

// CheckNamed is [CheckFile] if there is a path.
func CheckNamed(flag, path string, force bool) error {
	if path == "" {
		return nil
	}
	return CheckFile(flag, path, force)
}

// WriteNamed is [WriteFile] if there is a path, for a file that others may read.
func WriteNamed(flag, path string, force bool, write func(w io.Writer) error) error {
	if path == "" {
		return nil
	}
	return WriteFile(flag, path, force, 0o644, write)
}

// CreateBeside makes a new file in the folder of path.
func CreateBeside(path string) (*os.File, error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if at, ok := errors.AsType[*os.PathError](err); ok {
		return nil, fmt.Errorf("make a file in %s: %w", filepath.Dir(path), at.Err) // not the temporary name
	}
	return f, err
}

// finish lets write write f, closes it, and gives it the name path. At each moment that name has the old content or
// all of the new one. After an error f is removed.
func finish(f *os.File, path string, mode os.FileMode, write func(w io.Writer) error) error {
	err := errors.Join(f.Chmod(mode), write(f), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		os.Remove(f.Name())
	}
	return err
}

// behind writes while its user makes more.
type behind struct {
	chunks chan []byte
	free   chan []byte // chunks that are written, to be used again
	done   chan error
}

func newBehind(w io.Writer) *behind {
	const ahead = 8 // chunks
	b := &behind{chunks: make(chan []byte, ahead), free: make(chan []byte, ahead+2), done: make(chan error, 1)}
	go func() {
		var err error
		for chunk := range b.chunks {
			if err == nil {
				_, err = w.Write(chunk)
			}
			b.free <- chunk[:0]
		}
		b.done <- err
	}()
	return b
}

// Write takes over a copy. close returns an error of the file.
func (b *behind) Write(chunk []byte) (int, error) {
	var own []byte
	select {
	case own = <-b.free:
	default:
	}
	b.chunks <- append(own, chunk...)
	return len(chunk), nil
}

// close waits until all is written, and returns the first error.
func (b *behind) close() error {
	close(b.chunks)
	return <-b.done
}

// StandardOutput is the name of standard output instead of a file.
const StandardOutput = "-"

// StandardInput is the name of standard input instead of a file.
const StandardInput = "-"
