// SPDX-License-Identifier: Apache-2.0

package tap

import (
	"fmt"
	"net"
	"time"

	"github.com/ddlemu/ddlemu/shaper/fabric/state"
	"github.com/ddlemu/ddlemu/shaper/kernel/sockets"
)

// openTimeout is how long Open waits for the daemon.
const openTimeout = 60 * time.Second

// Stream is the packets on the links of a fabric. One goroutine reads it, another one may stop it.
type Stream struct {
	conn    *net.UnixConn
	kind    Kind
	message []byte
	records []byte // of the message, not yet read
}

// Open asks the daemon of the fabric called name for the first snap bytes of each packet on its links, from now on.
func Open(dir *state.Dir, name string, snap int) (*Stream, error) {
	s := &Stream{message: make([]byte, maxMessage+headerSize+MaxSnap)}
	if err := s.open(dir, name, snap); err != nil {
		if s.conn != nil {
			s.conn.Close()
		}
		return nil, fmt.Errorf("get the packets of fabric %s from its daemon: %w", name, err)
	}
	return s, nil
}

func (s *Stream) open(dir *state.Dir, name string, snap int) error {
	var err error
	if s.conn, err = state.DialSocket(dir.Path, dir.UID(), state.DaemonSocket(name)); err != nil {
		return err
	}
	s.conn.SetDeadline(time.Now().Add(openTimeout))
	if err := sockets.Ask(s.conn, marshalRequest(snap)); err != nil {
		return err
	}
	n, err := s.conn.Read(s.message)
	if err != nil {
		return err
	}
	if s.kind, err = parseGreeting(s.message[:n]); err != nil {
		return err
	}
	return s.conn.SetDeadline(time.Time{})
}

// Kind says what the daemon reads the packets with.
func (s *Stream) Kind() Kind { return s.kind }

// Read returns the next record, and io.EOF when the stream was stopped or the fabric was taken down. The record's data
// are valid until the next call.
func (s *Stream) Read() (Record, error) {
	for len(s.records) == 0 {
		n, err := s.conn.Read(s.message)
		if err != nil {
			return Record{}, err
		}
		s.records = s.message[:n]
	}
	r, rest, err := Parse(s.records)
	s.records = rest
	return r, err
}

// Buffered reports whether Read will return without waiting.
func (s *Stream) Buffered() bool { return len(s.records) > 0 }

// Stop ends the stream. Read returns the records of the packets until now, then io.EOF.
func (s *Stream) Stop() error { return s.conn.CloseWrite() }

// Close releases the stream.
func (s *Stream) Close() error { return s.conn.Close() }
