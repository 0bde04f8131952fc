// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"bytes"
	"io"
	"sync"
)

// MaxLine is the longest line that is kept whole, in bytes. Longer lines are split, which bounds the memory of a
// LineStream.
const MaxLine = 64 << 10

// LinePrinter merges the output of several programs. It writes whole lines, each with the prefix of its program. Mu
// may be shared by printers that write to the same terminal.
type LinePrinter struct {
	To io.Writer
	Mu *sync.Mutex
}

// LineStream is an io.WriteCloser for the output of one program. It is not safe for concurrent use.
type LineStream struct {
	printer LinePrinter
	prefix  []byte
	partial []byte // beginning of a line whose end is not written yet
	cr      bool   // the last byte was a carriage return: a newline that follows ends the same line
}

// Stream returns a new stream that writes prefix before each line.
func (p LinePrinter) Stream(prefix string) *LineStream {
	return &LineStream{printer: p, prefix: []byte(prefix)}
}

// Write prints the lines that b completes and keeps the rest. A carriage return ends a line too, because progress
// bars write no newline.
func (s *LineStream) Write(b []byte) (int, error) {
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
		case n < i: // the line is longer than MaxLine
			out = s.appendLine(out)
		case len(rest) > 0:
			s.cr, rest = rest[0] == '\r', rest[1:]
			if !s.cr || len(s.partial) > 0 { // a progress bar begins with a carriage return: print no empty line
				out = s.appendLine(out)
			}
		}
	}
	return len(b), s.print(out)
}

// Close prints the last line if it has no newline.
func (s *LineStream) Close() error {
	if len(s.partial) == 0 {
		return nil
	}
	return s.print(s.appendLine(nil))
}

// appendLine appends the prefix and the partial line to out.
func (s *LineStream) appendLine(out []byte) []byte {
	out = append(append(append(out, s.prefix...), s.partial...), '\n')
	s.partial = s.partial[:0]
	return out
}

func (s *LineStream) print(out []byte) error {
	if len(out) == 0 {
		return nil
	}
	s.printer.Mu.Lock()
	defer s.printer.Mu.Unlock()
	_, err := s.printer.To.Write(out)
	return err
}
