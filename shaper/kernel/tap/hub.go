// SPDX-License-Identifier: Apache-2.0

package tap

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"time"
)

// Source is what a hub reads packets from.
type Source interface {
	Kind() Kind
	// Open begins to read the first snap bytes of each packet. It is not called again before the reader is closed.
	Open(snap int) (Reader, error)
}

// Reader reads packets. One goroutine calls Read and Close. Missed and SetSnap may be called during Read.
type Reader interface {
	// Read reads a record. Missed is the number of records of this link that were left out since Open. If there is no
	// record for a moment, the error is ErrNone. The record's data are valid until the next call.
	Read(r *Record) error
	// Missed returns how many records were left out since Open, by hop.
	Missed() (map[uint32]uint64, error)
	// SetSnap changes how many bytes of each packet are read.
	SetSnap(snap int) error
	Close() error
}

// ErrNone says that there is no record at the moment.
var ErrNone = errors.New("no record")

// Limits of a hub.
const (
	maxClients = 16
	maxBuffer  = 4 << 20         // bytes that wait for one client; what does not fit is left out and counted
	endTimeout = 5 * time.Second // how long a client may need to read the last records
)

// Hub sends the packets of a source to clients. It reads only while there are clients. Its methods are safe for
// concurrent use.
type Hub struct {
	source Source
	report func(error)
	mu     sync.Mutex
	// The fields below are protected by mu.
	clients map[*client]bool
	reader  Reader // nil if there are no clients
	closed  bool
	drains  []chan struct{} // closed when the records that exist have been read
	waiting []chan struct{} // as drains, one round later
	running sync.WaitGroup
}

// NewHub returns a hub that reads from s. It calls report with errors of s, after which it ends all clients.
func NewHub(s Source, report func(error)) *Hub {
	return &Hub{source: s, report: report, clients: map[*client]bool{}}
}

// Serve answers a request on c, if it is one for a tap. It returns nil without an error if it is not. Otherwise the
// function sends packets to the client until the client closes its side or the hub is closed.
func (h *Hub) Serve(c *net.UnixConn, request []byte) (serve func(), err error) {
	snap, isTap, err := parseRequest(request)
	if !isTap || err != nil {
		return nil, err
	}
	cl, err := h.attach(snap)
	if err != nil {
		return nil, err
	}
	return func() {
		defer h.running.Done()
		cl.send(c, h)
	}, nil
}

// Close ends all clients, and returns when they have ended.
func (h *Hub) Close() {
	h.mu.Lock()
	h.closed = true
	for c := range h.clients {
		c.end()
	}
	h.mu.Unlock()
	h.running.Wait()
}

// attach adds a client. The first one opens the source.
func (h *Hub) attach(snap int) (*client, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.closed:
		return nil, errors.New("the fabric is being taken down")
	case len(h.clients) >= maxClients:
		return nil, fmt.Errorf("%d captures of this fabric run already: stop one of them", maxClients)
	}
	c := newClient(snap)
	if h.reader == nil {
		r, err := h.source.Open(snap)
		if err != nil {
			return nil, fmt.Errorf("open the tap: %w", err)
		}
		h.reader = r
		h.running.Add(1)
		go h.read()
	} else {
		missed, err := h.reader.Missed()
		if err != nil {
			return nil, err
		}
		c.missed = missed
	}
	h.clients[c] = true
	if err := h.setSnap(); err != nil {
		delete(h.clients, c)
		return nil, err
	}
	h.running.Add(1)
	return c, nil
}

// setSnap makes the reader read as much of a packet as the client wants that wants most.
func (h *Hub) setSnap() error {
	snap := 1
	for c := range h.clients {
		snap = max(snap, c.snap)
	}
	return h.reader.SetSnap(snap)
}

// detach waits until the client has all records of packets until now, adds how many are missing, and removes the
// client.
func (h *Hub) detach(c *client) {
	drained := make(chan struct{})
	h.mu.Lock()
	h.waiting = append(h.waiting, drained)
	h.mu.Unlock()
	<-drained
	h.mu.Lock()
	defer h.mu.Unlock()
	if missed, err := h.reader.Missed(); err == nil {
		c.addNotices(missed)
	}
	delete(h.clients, c)
}

// read passes records to the clients until there are no clients.
func (h *Hub) read() {
	defer h.running.Done()
	var r Record
	for {
		err := h.reader.Read(&r)
		h.mu.Lock()
		switch {
		case err == nil:
			for c := range h.clients {
				c.add(r)
			}
		case len(h.clients) == 0:
			_ = h.reader.Close() // nothing depends on it any more
			h.reader = nil
			h.mu.Unlock()
			return
		default:
			h.finishDrains()
		}
		h.mu.Unlock()
		if err != nil && !errors.Is(err, ErrNone) {
			h.fail(err)
			time.Sleep(10 * time.Millisecond)
		}
	}
}

// finishDrains is called when all records have been read. A record may have come while Read was returning, so it ends
// the waits of the round before.
func (h *Hub) finishDrains() {
	for _, c := range h.drains {
		close(c)
	}
	h.drains, h.waiting = h.waiting, nil
}

// fail ends all clients after an error of the source.
func (h *Hub) fail(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	running := false
	for c := range h.clients {
		running = running || !c.isEnded()
		c.end()
	}
	if running {
		h.report(err)
	}
}

// client is one that gets records.
type client struct {
	snap   int
	missed map[uint32]uint64 // as the reader tells it, at the last record of each link
	ended  chan struct{}
	once   sync.Once

	mu     sync.Mutex
	buffer []byte
	left   map[uint32]uint64 // records that did not fit into the buffer, since the last one of the link
	ready  chan struct{}     // has an element if the buffer is not empty
}

func newClient(snap int) *client {
	return &client{snap: snap, missed: map[uint32]uint64{}, left: map[uint32]uint64{}, ended: make(chan struct{}),
		ready: make(chan struct{}, 1)}
}

// end makes send return.
func (c *client) end() { c.once.Do(func() { close(c.ended) }) }

func (c *client) isEnded() bool {
	select {
	case <-c.ended:
		return true
	default:
		return false
	}
}

// add adds a record to the buffer, or counts it as missing.
func (c *client) add(r Record) {
	c.mu.Lock()
	defer c.mu.Unlock()
	total := r.Missed
	r.Missed = c.left[r.Hop]
	if before := c.missed[r.Hop]; total > before {
		r.Missed += total - before
		c.missed[r.Hop] = total
	}
	if len(c.buffer)+headerSize+MaxSnap > maxBuffer {
		c.left[r.Hop] = r.Missed + 1
		return
	}
	delete(c.left, r.Hop)
	r.Data = r.Data[:min(len(r.Data), c.snap)]
	c.buffer = r.Append(c.buffer)
	select {
	case c.ready <- struct{}{}:
	default:
	}
}

// addNotices adds a notice for each link of which records are missing since its last one.
func (c *client) addNotices(totals map[uint32]uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for hop, total := range totals {
		if total > c.missed[hop] {
			c.left[hop] += total - c.missed[hop]
		}
	}
	for hop, n := range c.left {
		r := Record{Hop: hop, Missed: n, Fate: Notice}
		c.buffer = r.Append(c.buffer)
	}
}

// take returns the buffer, and gives the client an empty one.
func (c *client) take(empty []byte) []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	full := c.buffer
	c.buffer = empty[:0]
	return full
}

// send sends records until the client closes its side or the hub ends it.
func (c *client) send(conn *net.UnixConn, h *Hub) {
	defer c.end()
	_ = conn.SetDeadline(time.Time{}) // a capture lasts as long as its user wants
	go func() {
		_, _ = conn.Read(make([]byte, 1)) // clients send nothing more
		c.end()
	}()
	go func() {
		<-c.ended
		_ = conn.SetDeadline(time.Now().Add(endTimeout)) // a client that is stopped must not keep the fabric up
	}()
	_, err := conn.Write(marshalGreeting(h.source.Kind()))
	var b []byte
	for running := true; running && err == nil; {
		select {
		case <-c.ready:
		case <-c.ended:
			running = false
		}
		b = c.take(b)
		err = write(conn, b)
	}
	h.detach(c)
	if err == nil {
		_ = write(conn, c.take(nil)) // the client may have gone
	}
}

// write writes records, as many in a packet as it may have.
func write(conn *net.UnixConn, b []byte) error {
	for len(b) > 0 {
		n := 0
		for n < len(b) {
			_, rest, err := Parse(b[n:])
			if err != nil {
				return err
			}
			if end := len(b) - len(rest); end > maxMessage && n > 0 {
				break
			}
			n = len(b) - len(rest)
		}
		if _, err := conn.Write(b[:n]); err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}
