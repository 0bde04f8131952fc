// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// patience is how long a datagram may be under way at most.
const patience = time.Second

// measure sends datagrams from one socket to the other.
func measure(from, to *net.UDPConn, n, size int, gap time.Duration) ([]time.Duration, error) {
	if err := forceBuffer(to); err != nil {
		return nil, err
	}
	origin := time.Now()
	sent := make(chan error, 1)
	go func() { sent <- send(from, origin, n, size, gap) }()
	var took []time.Duration
	over := time.Time{}
	for block := make([]byte, 64<<10); len(took) < n; {
		if over.IsZero() {
			select {
			case err := <-sent:
				if err != nil {
					return nil, err
				}
				over = time.Now().Add(patience)
			default:
			}
		}
		if err := to.SetReadDeadline(time.Now().Add(patience / 10)); err != nil {
			return nil, err
		}
		_, err := to.Read(block)
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			if !over.IsZero() && time.Now().After(over) {
				return took, nil
			}
			continue
		case err != nil:
			return nil, fmt.Errorf("receive: %w", err)
		}
		took = append(took, time.Since(origin)-time.Duration(binary.LittleEndian.Uint64(block)))
	}
	return took, nil
}

// send sends n datagrams, each with the time since origin at which it was sent.
func send(from *net.UDPConn, origin time.Time, n, size int, gap time.Duration) error {
	block := make([]byte, max(size, 8))
	for i := range n {
		if wait := time.Duration(i)*gap - time.Since(origin); wait > 0 {
			time.Sleep(wait)
		}
		binary.LittleEndian.PutUint64(block, uint64(time.Since(origin)))
		if _, err := from.Write(block); err != nil {
			return fmt.Errorf("send: %w", err)
		}
	}
	return nil
}

// forceBuffer makes a socket hold many datagrams, whatever the system's limit.
func forceBuffer(c *net.UDPConn) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var set error
	err = raw.Control(func(fd uintptr) { set = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 64<<20) })
	return errors.Join(err, set)
}
