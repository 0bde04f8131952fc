// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"crypto/rand"
	"crypto/subtle"
	"net"
	"net/http"
	"net/netip"
	"strings"

	"github.com/vishvananda/netlink"
)

const cookie = "ddlemu_token"

// Auth says who may use a server: who has the token, and on a loopback address also processes of the same user and
// of root.
type Auth struct {
	Token string
	UID   int
	// UserOf is the user of the other end of a connection on this host.
	UserOf func(local, remote net.Addr) (uid int, ok bool)
}

// NewAuth makes a token.
func NewAuth(uid int) *Auth { return &Auth{Token: rand.Text(), UID: uid, UserOf: userOf} }

// userOf asks the kernel whose socket the other end is.
func userOf(local, remote net.Addr) (int, bool) {
	s, err := netlink.SocketGet(remote, local)
	if err != nil {
		return 0, false
	}
	return int(s.UID), true
}

func (a *Auth) protect(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		local := isLoopback(localAddr(r))
		switch {
		case local && !isLoopbackName(r.Host):
			// A page of another site whose name leads here (DNS rebinding).
			http.Error(w, "ddlemu: ask for 127.0.0.1 or localhost, not for "+r.Host, http.StatusForbidden)
		case a.isToken(r.URL.Query().Get("token")) && r.Method == http.MethodGet:
			http.SetCookie(w, &http.Cookie{Name: cookie, Value: a.Token, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode})
			http.Redirect(w, r, r.URL.Path, http.StatusSeeOther)
		case a.hasToken(r), local && a.isOwn(r):
			next.ServeHTTP(w, r)
		default:
			http.Error(w, "ddlemu: give the token: open the address that `ddlemu serve` printed, or send it as \"Authorization: Bearer TOKEN\"", http.StatusUnauthorized)
		}
	})
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
	remote, err := net.ResolveTCPAddr("tcp", r.RemoteAddr)
	if err != nil {
		return false
	}
	uid, ok := a.UserOf(localAddr(r), remote)
	return ok && (uid == a.UID || uid == 0)
}

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
