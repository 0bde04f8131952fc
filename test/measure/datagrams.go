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

// maxFlight is the longest time that a datagram may be in flight.
const maxFlight = time.Second

// measure sends n datagrams from one socket to the other and returns the time of flight of those that arrive.
func measure(from, to *net.UDPConn, n, size int, gap time.Duration) ([]time.Duration, error) {
	if err := forceBuffer(to); err != nil {
		return nil, err
	}
	start := time.Now()
	sent := make(chan error, 1)
	go func() { sent <- send(from, start, n, size, gap) }()
	var flight []time.Duration
	end := time.Time{}
	for block := make([]byte, 64<<10); len(flight) < n; {
		if end.IsZero() {
			select {
			case err := <-sent:
				if err != nil {
					return nil, err
				}
				end = time.Now().Add(maxFlight)
			default:
			}
		}
		if err := to.SetReadDeadline(time.Now().Add(maxFlight / 10)); err != nil {
			return nil, err
		}
		_, err := to.Read(block)
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			if !end.IsZero() && time.Now().After(end) {
				return flight, nil
			}
			continue
		case err != nil:
			return nil, fmt.Errorf("receive: %w", err)
		}
		flight = append(flight, time.Since(start)-time.Duration(binary.LittleEndian.Uint64(block)))
	}
	return flight, nil
}

// send sends n datagrams. Each carries its time of sending, since start.
func send(from *net.UDPConn, start time.Time, n, size int, gap time.Duration) error {
	block := make([]byte, max(size, 8))
	for i := range n {
		if wait := time.Duration(i)*gap - time.Since(start); wait > 0 {
			time.Sleep(wait)
		}
		binary.LittleEndian.PutUint64(block, uint64(time.Since(start)))
		if _, err := from.Write(block); err != nil {
			return fmt.Errorf("send: %w", err)
		}
	}
	return nil
}

// forceBuffer gives a socket a large receive buffer, beyond the system's limit.
func forceBuffer(c *net.UDPConn) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var set error
	err = raw.Control(func(fd uintptr) {
		set = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUFFORCE,
			64<<20)
	})
	return errors.Join(err, set)
}
