// SPDX-License-Identifier: Apache-2.0

// Package lines writes the output of several programs as one, by whole lines, each
// with the name of its program in front.
package lines

import (
	"bytes"
	"io"
	"sync"
)

// MaxLine is the longest line that stays whole, in bytes: a longer one is cut into
// lines of this length, so that a program without newlines takes no more memory.
const MaxLine = 64 << 10

// Printer is what several streams write to. Its mutex may be another printer's, if
// both end on one terminal.
type Printer struct {
	To io.Writer
	Mu *sync.Mutex
}

// Stream is one program's output; not safe for concurrent use.
type Stream struct {
	printer Printer
	prefix  []byte
	partial []byte // of the last line, without its end
	cr      bool   // a carriage return was last: a newline now belongs to it
}

// Stream is a new stream whose lines begin with prefix.
func (p Printer) Stream(prefix string) *Stream {
	return &Stream{printer: p, prefix: []byte(prefix)}
}

// Write writes the lines that b ends and keeps the rest. A carriage return ends a
// line too: progress bars end none otherwise.
func (s *Stream) Write(b []byte) (int, error) {
	var out []byte
	for rest := b; len(rest) > 0; {
		if s.cr && rest[0] == '\n' {
			s.cr, rest = false, rest[1:]
			continue
		}
		s.cr = false
		i := bytes.IndexAny(rest, "\r\n")
		if i < 0 {
			i = len(rest)
		}
		n := min(i, MaxLine-len(s.partial))
		s.partial, rest = append(s.partial, rest[:n]...), rest[n:]
		switch {
		case n < i: // too long
			out = s.line(out)
		case len(rest) > 0:
			s.cr, rest = rest[0] == '\r', rest[1:]
			if !s.cr || len(s.partial) > 0 { // progress bars begin with one
				out = s.line(out)
			}
		}
	}
	return len(b), s.print(out)
}

// Close writes a last line that had no newline.
func (s *Stream) Close() error {
	if len(s.partial) == 0 {
		return nil
	}
	return s.print(s.line(nil))
}

// line is out and the line that is kept.
func (s *Stream) line(out []byte) []byte {
	out = append(append(append(out, s.prefix...), s.partial...), '\n')
	s.partial = s.partial[:0]
	return out
}

func (s *Stream) print(out []byte) error {
	if len(out) == 0 {
		return nil
	}
	s.printer.Mu.Lock()
	defer s.printer.Mu.Unlock()
	_, err := s.printer.To.Write(out)
	return err
}
