// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"crypto/rand"
	"crypto/subtle"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"path"
	"strings"
	"time"
)

const cookie = "ddlemu_token"

// Auth says which clients may use a server: those with the token, and on a loopback address also processes of the same
// user and of root.
type Auth struct {
	Token string
	UID   int
	// UserOf is the user of the other end of a connection on this host. ok is false if that is not certain.
	UserOf func(c net.Conn) (uid int, ok bool)
}

// NewAuth makes a token.
func NewAuth(uid int) *Auth { return &Auth{Token: rand.Text(), UID: uid, UserOf: userOf} }

func (a *Auth) protect(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		local := isLoopback(localAddr(r))
		switch {
		case local && !isLoopbackName(r.Host):
			// A page of another site whose name leads here (DNS rebinding).
			refuse(w, "ddlemu: ask for 127.0.0.1 or localhost, not for "+r.Host, http.StatusForbidden)
		case a.isToken(r.URL.Query().Get("token")) && r.Method == http.MethodGet:
			welcome(w, r)
			http.SetCookie(w, &http.Cookie{Name: cookie, Value: a.Token, Path: "/", HttpOnly: true,
				SameSite: http.SameSiteStrictMode})
			http.Redirect(w, r, onThisServer(r.URL.Path), http.StatusSeeOther)
		case a.hasToken(r), local && a.isOwn(r):
			welcome(w, r)
			next.ServeHTTP(w, r)
		default:
			refuse(w,
				"ddlemu: give the token: open the address that `ddlemu serve` printed, or send it as \"Authorization: "+
					"Bearer TOKEN\"", http.StatusUnauthorized)
		}
	})
}

// onThisServer returns an address of this server for a path. A browser takes "//host/" and "/\host" for another server.
func onThisServer(asked string) string { return (&url.URL{Path: path.Clean("/" + asked)}).String() }

// welcome keeps the connection of a request that is answered open for the next one.
func welcome(w http.ResponseWriter, r *http.Request) {
	w.Header().Del("Connection")
	if c := connOf(r.Context()); c != nil {
		c.welcome()
	}
}

// refusalGrace is how long the rest of a refused request is read. A socket that is closed with unread data discards the
// answer.
const refusalGrace = time.Second

func refuse(w http.ResponseWriter, text string, status int) {
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(refusalGrace)) // a test's has none
	http.Error(w, text, status)
}

func (a *Auth) hasToken(r *http.Request) bool {
	if token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok {
		return a.isToken(token)
	}
	c, err := r.Cookie(cookie)
	return err == nil && a.isToken(c.Value)
}

func (a *Auth) isToken(text string) bool {
	return text != "" && subtle.ConstantTimeCompare([]byte(text), []byte(a.Token)) == 1
}

// isOwn reports whether a process of the same user, or of root, has asked.
func (a *Auth) isOwn(r *http.Request) bool {
	c := connOf(r.Context())
	if c == nil {
		return false
	}
	uid, ok := a.UserOf(c.Conn)
	return ok && a.isOwner(uid)
}

// isOwner reports whether a user needs no token.
func (a *Auth) isOwner(uid int) bool { return uid == a.UID || uid == 0 }

func localAddr(r *http.Request) net.Addr {
	a, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	return a
}

func isLoopback(a net.Addr) bool {
	tcp, ok := a.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}

// isLoopbackName reports whether a host of an URL, with or without port, is this host's own.
func isLoopbackName(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	ip, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return host == "localhost" || err == nil && ip.IsLoopback()
}
