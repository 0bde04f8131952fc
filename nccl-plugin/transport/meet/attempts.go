// SPDX-License-Identifier: Apache-2.0

package meet

import "errors"

// Attempts are the connects of one process that are under way, by their numbers in
// the handle. H is a datapath's handle, C its connection. Used under its owner's lock.
type Attempts[H comparable, C any] map[uint64]*attempt[H, C]

type attempt[H comparable, C any] struct {
	to   H
	nic  int
	done chan struct{}
	conn C
	err  error
}

// Begin notes that a connect from a NIC has begun. What it came to is told to the
// function returned, by any goroutine, once.
func (a Attempts[H, C]) Begin(key uint64, nic int, to H) (end func(C, error)) {
	t := &attempt[H, C]{to: to, nic: nic, done: make(chan struct{})}
	a[key] = t
	return func(c C, err error) {
		t.conn, t.err = c, err
		close(t.done)
	}
}

// Result takes the connection that a connect came to; ok is false while it is under
// way. It fails as the connect did, or for a key that is not of this NIC and handle:
// the key is what the peer or anybody wrote.
func (a Attempts[H, C]) Result(key uint64, nic int, to H) (c C, ok bool, err error) {
	t := a[key]
	if t == nil || t.to != to || t.nic != nic {
		return c, false, errors.New("connect with a handle whose attempt is unknown here: it was used before, or another process began it")
	}
	select {
	case <-t.done:
	default:
		return c, false, nil
	}
	delete(a, key)
	return t.conn, t.err == nil, t.err
}
