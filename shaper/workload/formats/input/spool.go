// SPDX-License-Identifier: Apache-2.0

package input

import (
	"context"
	"fmt"
	"io"
	"math"
	"os"
)

// Spool keeps what in has, at most so many bytes, for readers that open a file several times. What is no regular file
// is copied to a file in $TMPDIR that has no name, so that only this process has it. The file is gone when done is
// called, or when the process has ended. It fails when ctx ends.
func Spool(ctx context.Context, name string, in io.Reader, most int64) (f File, done func(), err error) {
	if file, ok := in.(*os.File); ok {
		if stat, err := file.Stat(); err == nil && stat.Mode().IsRegular() {
			at, err := file.Seek(0, io.SeekCurrent)
			return section(name, file, at, max(stat.Size()-at, 0)), func() {}, err
		}
	}
	copied, err := os.CreateTemp("", "ddlemu-input-")
	if err != nil {
		return f, nil, fmt.Errorf("keep %s in a file: %w", name, err)
	}
	done = func() { copied.Close() }
	if err := os.Remove(copied.Name()); err != nil {
		done()
		return f, nil, fmt.Errorf("keep %s in a file: %w", name, err)
	}
	n, err := io.Copy(copied, io.LimitReader(&until{io.NopCloser(in), ctx}, most))
	if err == nil && n == most {
		if n, _ := in.Read(make([]byte, 1)); n > 0 {
			err = fmt.Errorf("it has more than %d bytes: give the file itself", most)
		}
	}
	if err != nil {
		done()
		return f, nil, fmt.Errorf("keep %s in a file in %s: %w", name, os.TempDir(), err)
	}
	return section(name, copied, 0, n), done, nil
}

// section is the part of a file from an offset on.
func section(name string, in io.ReaderAt, at, size int64) File {
	return File{Name: name, size: func() int64 { return size }, open: func() (io.ReadCloser, error) {
		return io.NopCloser(io.NewSectionReader(in, at, size)), nil
	}}
}

// followEvery is the number of bytes after which Follow calls.
const followEvery = 1 << 20

// Follow returns the files, readers of which fail when ctx ends; while they are read, it calls part with how much of
// them has been read, 0 to 1, if their sizes are known. The files must not be read at the same time.
func Follow(ctx context.Context, files []File, part func(float64)) []File {
	var total, done, said int64
	for _, f := range files {
		total += f.Size()
	}
	add := func(n int64) {
		if done += n; total > 0 && done-said >= followEvery {
			said = done
			part(math.Min(float64(done)/float64(total), 1))
		}
	}
	out := make([]File, len(files))
	for i, f := range files {
		out[i] = f
		out[i].ctx = ctx
		reported := int64(0)
		out[i].part = func(of float64) {
			n := max(int64(of*float64(f.Size()))-reported, 0)
			reported += n
			add(n)
		}
		out[i].open = func() (io.ReadCloser, error) {
			raw, err := f.open()
			if err != nil {
				return nil, err
			}
			return &follower{until{raw, ctx}, add}, nil
		}
	}
	return out
}

// follower is a reader that says how much it has read.
type follower struct {
	until
	read func(int64)
}

func (f *follower) Read(p []byte) (int, error) {
	n, err := f.until.Read(p)
	f.read(int64(n))
	return n, err
}
