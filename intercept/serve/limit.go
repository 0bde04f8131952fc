// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"context"
	"net"
	"strconv"
	"sync"
	"time"
)

// limits bound what connections cost a server, so that clients without access cannot keep it from answering others.
type limits struct {
	header time.Duration // to send the header of a request
	body   time.Duration // to send the header and the body
	answer time.Duration // to take the answer, from the end of the header; no answer is a stream
	idle   time.Duration // between two requests

	open      int // connections
	strangers int // of these, connections that have not shown yet that they may use the server
	stranger  int // of these, connections of one user of this host, or of one address elsewhere
}

// standard are the limits of every server. A browser opens 6 connections for a page. `ddlemu shape` has always answered
// in less than answer.
var standard = limits{
	header: 10 * time.Second, body: 20 * time.Second, answer: time.Minute, idle: time.Minute,
	open: 512, strangers: 128, stranger: 16,
}

// maxHeader is the largest header of a request, in bytes. It has the cookies of all servers on this host.
const maxHeader = 1 << 16

// limiter is a listener that closes what connects beyond the limits.
type limiter struct {
	net.Listener
	limits limits
	auth   *Auth

	mu        sync.Mutex
	open      int
	strangers int
	of        map[string]int // strangers, by whose they are
}

func newLimiter(l net.Listener, auth *Auth, within limits) *limiter {
	return &limiter{Listener: l, limits: within, auth: auth, of: map[string]int{}}
}

// Accept returns the next connection within the limits.
func (l *limiter) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if counted := l.admit(c); counted != nil {
			return counted, nil
		}
		_ = c.Close() // nothing was sent
	}
}

// admit counts a connection. It returns nil if that is one too many.
func (l *limiter) admit(c net.Conn) *conn {
	who, known := l.auth.whose(c)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open >= l.limits.open {
		return nil
	}
	if !known {
		if l.strangers >= l.limits.strangers || l.of[who] >= l.limits.stranger {
			return nil
		}
		l.strangers++
		l.of[who]++
	}
	l.open++
	return &conn{Conn: c, limiter: l, who: who, stranger: !known}
}

// conn is a connection that counts.
type conn struct {
	net.Conn
	limiter *limiter
	who     string

	// Guarded by the limiter's mutex.
	stranger, closed bool
}

// Close closes the connection, which then no longer counts.
func (c *conn) Close() error {
	err := c.Conn.Close()
	c.limiter.mu.Lock()
	defer c.limiter.mu.Unlock()
	if !c.closed {
		c.closed = true
		c.limiter.open--
		c.leave()
	}
	return err
}

// welcome notes that the other end has shown that it may use the server.
func (c *conn) welcome() {
	c.limiter.mu.Lock()
	defer c.limiter.mu.Unlock()
	c.leave()
}

// leave no longer counts c among the strangers. The caller holds the mutex.
func (c *conn) leave() {
	if !c.stranger {
		return
	}
	c.stranger = false
	c.limiter.strangers--
	if c.limiter.of[c.who]--; c.limiter.of[c.who] == 0 {
		delete(c.limiter.of, c.who)
	}
}

// whose says whose the other end of a connection is: a user of this host, or an address. known says that it may use the
// server without the token.
func (a *Auth) whose(c net.Conn) (who string, known bool) {
	if !isLoopback(c.LocalAddr()) {
		return "address " + addressOf(c.RemoteAddr()).Addr().String(), false
	}
	uid, ok := a.UserOf(c)
	if !ok {
		return "nobody", false
	}
	return "user " + strconv.Itoa(uid), a.isOwner(uid)
}

type connKey struct{}

// withConn is the context of the requests of a connection.
func withConn(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, c)
}

// connOf is the connection of a request, nil if it has none.
func connOf(ctx context.Context) *conn {
	c, _ := ctx.Value(connKey{}).(*conn)
	return c
}
