// SPDX-License-Identifier: Apache-2.0

// Package input opens the files of other workload formats: it unpacks gzip, limits how much is read, and says where in
// a file an error is.
package input

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/ddlemu/ddlemu/configs/units"
)

// maxLine is the maximum length of a line of a text format.
const maxLine = 1 << 20

// Options say what the files do not.
type Options struct {
	// Ranks is the number of ranks. 0: what the files say.
	Ranks int
	// Experts is the number of ranks of an expert parallel group. 0: what the files say.
	Experts int
	// OneForAll lets the file of one rank stand for all ranks of its job.
	OneForAll bool
	// Type is the type of the elements where the source says only bytes or a number of elements. "": float32.
	Type string
	// MaxOps is the maximum number of operations. 0: MaxOps of the package.
	MaxOps int
	// Limit counts towards MaxOps. formats.Read sets it.
	Limit *Limit
}

// ElementType is the type for elements of which the source does not say the type.
func (o Options) ElementType() string { return cmp.Or(o.Type, "float32") }

// CheckRanks refuses a number of ranks that is not the one that a file says; said is 0 if it says none.
func (o Options) CheckRanks(file string, said int) error {
	if o.Ranks == 0 || said == 0 || o.Ranks == said {
		return nil
	}
	return fmt.Errorf("%s says %s, --ranks %d: leave it out", file, units.Count(said, "rank"), o.Ranks)
}

// File is a file that has not been opened yet.
type File struct {
	Name string
	open func() (io.ReadCloser, error)
	path string          // on disk, "" if it is not there
	ctx  context.Context // until which it may be read; nil: always
	size func() int64
	part func(float64) // is called with how much of the file has been read; may be nil
}

// Size is the number of bytes of the file as it is, perhaps packed; 0 if it is not known.
func (f File) Size() int64 {
	if f.size == nil {
		return 0
	}
	return f.size()
}

// Progress says how much of the file has been read, 0 to 1, for readers that do not open it here, such as of databases.
func (f File) Progress(part float64) {
	if f.part != nil {
		f.part(part)
	}
}

// Path is the file at a path.
func Path(name string) File {
	size := func() int64 {
		if stat, err := os.Stat(name); err == nil && stat.Mode().IsRegular() {
			return stat.Size()
		}
		return 0
	}
	return File{Name: name, size: size, open: func() (io.ReadCloser, error) { return openPath(name) }, path: name}
}

func openPath(name string) (io.ReadCloser, error) {
	if stat, err := os.Stat(name); err == nil && stat.IsDir() {
		return nil, fmt.Errorf("%s is a folder: give its files, such as %s", name, filepath.Join(name, "*"))
	}
	return os.Open(name)
}

// Bytes is a file with a content in memory.
func Bytes(name string, data []byte) File {
	return section(name, bytes.NewReader(data), 0, int64(len(data)))
}

// Paths are the files at paths.
func Paths(names []string) []File {
	var files []File
	for _, name := range names {
		files = append(files, Path(name))
	}
	return files
}

// Context ends when the file is to be read no more.
func (f File) Context() context.Context {
	if f.ctx == nil {
		return context.Background()
	}
	return f.ctx
}

// until is a reader that fails when ctx ends.
type until struct {
	io.ReadCloser
	ctx context.Context
}

func (u *until) Read(p []byte) (int, error) {
	if err := u.ctx.Err(); err != nil {
		return 0, err
	}
	return u.ReadCloser.Read(p)
}

// Reader reads the unpacked content of a file.
type Reader struct {
	*bufio.Reader
	name   string
	closer io.Closer
	packed bool
}

// Open opens the file. If its content is packed by gzip, the reader unpacks it.
func (f File) Open() (*Reader, error) {
	raw, err := f.open()
	if err != nil {
		return nil, err
	}
	packed := &counter{Reader: raw}
	r := &Reader{Reader: bufio.NewReaderSize(packed, 1<<16), name: f.Name, closer: raw}
	if magic, _ := r.Peek(2); bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		unpacked, err := gzip.NewReader(r.Reader)
		if err != nil {
			raw.Close()
			return nil, fmt.Errorf("%s: unpack gzip: %w", f.Name, err)
		}
		r.Reader, r.packed = bufio.NewReaderSize(&unpacker{unpacked, packed, 0}, 1<<16), true
	}
	return r, nil
}

// counter counts the bytes that are read.
type counter struct {
	io.Reader
	n int64
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.n += int64(n)
	return n, err
}

// Traces unpack to 10 to 60 times their size. What gives more than maxRatio times its size, and more than leastBomb
// bytes, is no trace, and would take long to read.
const (
	maxRatio  = 100
	leastBomb = 64 << 20
)

// unpacker fails if a file unpacks to too much.
type unpacker struct {
	io.Reader
	packed *counter
	n      int64
}

func (u *unpacker) Read(p []byte) (int, error) {
	n, err := u.Reader.Read(p)
	if u.n += int64(n); u.n > leastBomb && u.n/maxRatio > u.packed.n {
		return 0, fmt.Errorf("it unpacks to more than %d times its size: this is no trace", maxRatio)
	}
	return n, err
}

// Close closes the file.
func (r *Reader) Close() error { return r.closer.Close() }

// Lines are the lines of a text file.
type Lines struct {
	name    string
	scanner *bufio.Scanner
	number  int
}

// Lines returns the lines of the file. A line has at most 1 MiB.
func (r *Reader) Lines() *Lines {
	s := bufio.NewScanner(r)
	s.Buffer(make([]byte, 0, 1<<16), maxLine)
	return &Lines{name: r.name, scanner: s}
}

// Next goes to the next line. It returns false at the end, and at an error, which Err returns.
func (l *Lines) Next() bool {
	l.number++
	return l.scanner.Scan()
}

// Text is the line.
func (l *Lines) Text() string { return l.scanner.Text() }

// Number is the number of the line, from 1.
func (l *Lines) Number() int { return l.number }

// Err is why Next returned false, nil at the end of the file.
func (l *Lines) Err() error {
	err := l.scanner.Err()
	if errors.Is(err, bufio.ErrTooLong) {
		err = fmt.Errorf("the line is longer than %d bytes", maxLine)
	}
	if err == nil {
		return nil
	}
	return l.Errorf("%w", err)
}

// Errorf is an error with the file and the line before it.
func (l *Lines) Errorf(format string, args ...any) error {
	return fmt.Errorf("%s:%d: %w", l.name, l.number, fmt.Errorf(format, args...))
}
