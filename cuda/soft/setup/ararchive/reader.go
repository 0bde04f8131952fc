// SPDX-License-Identifier: Apache-2.0

// Package ararchive reads static libraries (Unix ar archives with GNU's long names) as a stream. Unlike ar(1) it
// takes members of equal name in its stride.
package ararchive

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

const (
	magic      = "!<arch>\n"
	headerSize = 60
	// maxNames bounds the table of long names in bytes; NCCL's has a few KiB.
	maxNames = 1 << 20
)

// Reader reads one member after another. It is not safe for concurrent use.
type Reader struct {
	in    io.Reader
	names []byte // the table of long names
	left  int64  // bytes of the present member not yet read
	pad   bool   // a byte follows the present member
}

// NewReader checks the archive's beginning.
func NewReader(in io.Reader) (*Reader, error) {
	head := make([]byte, len(magic))
	if _, err := io.ReadFull(in, head); err != nil || string(head) != magic {
		return nil, errors.New("read archive: it does not begin with " + strings.TrimSpace(magic))
	}
	return &Reader{in: in}, nil
}

// Next goes to the next member and returns its name; io.EOF after the last. Symbol tables are left out.
func (r *Reader) Next() (string, error) {
	for {
		name, err := r.header()
		if err != nil {
			return "", err
		}
		switch {
		case name == "/" || name == "/SYM64/":
			continue
		case name == "//":
			if r.left > maxNames {
				return "", fmt.Errorf("read archive: a table of names of %d bytes", r.left)
			}
			if r.names, err = io.ReadAll(r); err != nil {
				return "", fmt.Errorf("read archive: %w", err)
			}
			continue
		case strings.HasPrefix(name, "/"):
			return r.longName(name[1:])
		}
		return strings.TrimSuffix(name, "/"), nil
	}
}

// Read reads the present member.
func (r *Reader) Read(p []byte) (int, error) {
	if r.left == 0 {
		return 0, io.EOF
	}
	n, err := r.in.Read(p[:min(int64(len(p)), r.left)])
	r.left -= int64(n)
	if errors.Is(err, io.EOF) && r.left > 0 {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// header skips what is left of the present member and reads the next one's header.
func (r *Reader) header() (string, error) {
	skip := r.left
	if r.pad {
		skip++
	}
	if n, err := io.CopyN(io.Discard, r.in, skip); err != nil && !(errors.Is(err, io.EOF) && n >= r.left) {
		return "", fmt.Errorf("read archive: %w", io.ErrUnexpectedEOF)
	}
	r.left, r.pad = 0, false
	var h [headerSize]byte
	if _, err := io.ReadFull(r.in, h[:]); err != nil {
		if errors.Is(err, io.EOF) {
			return "", io.EOF
		}
		return "", fmt.Errorf("read archive: %w", err)
	}
	size, err := strconv.ParseInt(strings.TrimSpace(string(h[48:58])), 10, 64)
	if err != nil || size < 0 || h[58] != '`' || h[59] != '\n' {
		return "", errors.New("read archive: a member's header is damaged")
	}
	r.left, r.pad = size, size%2 == 1
	return strings.TrimRight(string(h[:16]), " "), nil
}

func (r *Reader) longName(offset string) (string, error) {
	at, err := strconv.Atoi(offset)
	if err != nil || at < 0 || at >= len(r.names) {
		return "", fmt.Errorf("read archive: no name at %q", offset)
	}
	name, _, ok := bytes.Cut(r.names[at:], []byte("\n"))
	if !ok {
		return "", fmt.Errorf("read archive: the name at %q has no end", offset)
	}
	return strings.TrimSuffix(string(name), "/"), nil
}
