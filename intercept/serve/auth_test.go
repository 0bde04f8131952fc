// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/ddlemu/ddlemu/intercept/serve/history"
	"github.com/ddlemu/ddlemu/shaper/fabric/status"
)

// fake is a fabric that notes the changes that reach it.
type fake struct {
	changes []Change
	err     error
}

func (f *fake) State() (*State, error) {
	return &State{Format: Format, Document: status.Document{Reading: &status.Reading{Name: "f"}}}, f.err
}
func (f *fake) Shape(_ context.Context, c Change) (string, error) {
	f.changes = append(f.changes, c)
	return "changed", f.err
}
func (f *fake) History(hop string) (*history.Series, error) {
	return &history.Series{Format: history.Format, Hop: hop}, f.err
}
func (f *fake) Metrics(w io.Writer) error { _, _ = io.WriteString(w, "x 1\n"); return f.err }

// ask sends a request to a server at an address of this host, from a process of user 1000.
func ask(s Source, auth *Auth, server string, r *http.Request) *httptest.ResponseRecorder {
	host, port, _ := net.SplitHostPort(server)
	p := 0
	_, _ = fmt.Sscan(port, &p)
	r.RemoteAddr = "127.0.0.1:5000"
	if r.Host == "example.com" { // httptest's
		r.Host = server
	}
	ctx := context.WithValue(r.Context(), http.LocalAddrContextKey, &net.TCPAddr{IP: net.ParseIP(host), Port: p})
	r = r.WithContext(withConn(ctx, &conn{limiter: &limiter{}}))
	w := httptest.NewRecorder()
	New(s, auth, "v1").ServeHTTP(w, r)
	return w
}

func TestWhoMayAsk(t *testing.T) {
	const loopback, outside = "127.0.0.1:80", "192.0.2.1:80"
	user := func(uid int) func(net.Conn) (int, bool) {
		return func(net.Conn) (int, bool) { return uid, true }
	}
	unknown := func(net.Conn) (int, bool) { return 0, false }
	for _, c := range []struct {
		name, server, host string
		userOf             func(net.Conn) (int, bool)
		token              string
		want               int
	}{
		{"the user", loopback, "", user(1000), "", 200},
		{"the user, by name", loopback, "localhost:80", user(1000), "", 200},
		{"the user, by IPv6", "[::1]:80", "[::1]:80", user(1000), "", 200},
		{"root", loopback, "", user(0), "", 200},
		{"another user", loopback, "", user(1001), "", 401},
		{"another user with the token", loopback, "", user(1001), "secret", 200},
		{"nobody knows who", loopback, "", unknown, "", 401},
		{"a name of another site that leads here", loopback, "evil.example", user(1000), "", 403},
		{"such a name with the token", loopback, "evil.example", user(1000), "secret", 403},
		{"from outside", outside, "", user(1000), "", 401},
		{"from outside with the token", outside, "", unknown, "secret", 200},
		{"from outside with another token", outside, "", unknown, "secret2", 401},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := httptest.NewRequest(http.MethodGet, "/api/state", nil)
			if c.host != "" {
				r.Host = c.host
			}
			if c.token != "" {
				r.Header.Set("Authorization", "Bearer "+c.token)
			}
			if w := ask(&fake{}, &Auth{Token: "secret", UID: 1000, UserOf: c.userOf}, c.server, r); w.Code != c.want {
				t.Errorf("status %d, want %d: %s", w.Code, c.want, w.Body)
			}
		})
	}
}

// Whatever path has the token, the server leads to itself.
func TestTokenLeadsNowhereElse(t *testing.T) {
	auth := &Auth{Token: "secret", UID: 1000, UserOf: func(net.Conn) (int, bool) { return 0, false }}
	base, err := url.Parse("http://192.0.2.1:80/")
	if err != nil {
		t.Fatal(err)
	}
	for asked, want := range map[string]string{
		"/": "/", "/metrics": "/metrics", "//evil.example/": "/evil.example", "///evil.example": "/evil.example",
		"/%2Fevil.example/": "/evil.example", "/%5Cevil.example/": "/%5Cevil.example", "/\\evil.example/": "/%5Cevil.example",
		"/..//evil.example/": "/evil.example", "/.//evil.example": "/evil.example", "/%09/evil.example": "/%09/evil.example",
		"/https://evil.example/": "/https:/evil.example", "http://evil.example//evil.example/": "/evil.example",
		"/%0D%0ALocation:%20evil": "/%0D%0ALocation:%20evil",
	} {
		r := httptest.NewRequest(http.MethodGet, asked+"?token=secret", nil)
		got := ask(&fake{}, auth, base.Host, r).Header().Get("Location")
		to, err := base.Parse(got)
		if got != want || err != nil || to.Host != base.Host || strings.ContainsAny(got, "\\\r\n\t") {
			t.Errorf("%s leads to %q (%v), want %q", asked, got, err, want)
		}
	}
}

// The token of the printed address becomes a cookie, and is not in the address any more.
func TestTokenBecomesCookie(t *testing.T) {
	auth := &Auth{Token: "secret", UID: 1000, UserOf: func(net.Conn) (int, bool) { return 0, false }}
	const server = "192.0.2.1:80"
	w := ask(&fake{}, auth, server, httptest.NewRequest(http.MethodGet, "/?token=secret", nil))
	cookies := w.Result().Cookies()
	if w.Code != http.StatusSeeOther || w.Header().Get("Location") != "/" || len(cookies) != 1 {
		t.Fatalf("status %d to %q with cookies %v", w.Code, w.Header().Get("Location"), cookies)
	}
	if c := cookies[0]; !c.HttpOnly || c.SameSite != http.SameSiteStrictMode {
		t.Errorf("the cookie is %v", c)
	}
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.AddCookie(cookies[0])
	if w := ask(&fake{}, auth, server, r); w.Code != http.StatusOK ||
		!strings.Contains(w.Body.String(), `"version":"v1"`) {
		t.Errorf("with the cookie: status %d: %.200s", w.Code, w.Body)
	}
	if w := ask(&fake{}, auth, server,
		httptest.NewRequest(http.MethodGet, "/?token=wrong", nil)); w.Code != http.StatusUnauthorized {
		t.Errorf("a wrong token: status %d", w.Code)
	}
}

// A page of another site cannot change links through the user's browser.
func TestOtherSitesCannotChange(t *testing.T) {
	auth := &Auth{UID: 1000, UserOf: func(net.Conn) (int, bool) { return 1000, true }}
	for site, want := range map[string]int{"same-origin": 200, "cross-site": 403, "same-site": 403} {
		f := &fake{}
		r := httptest.NewRequest(http.MethodPost, "/api/shape", strings.NewReader(`{"link":"a>b"}`))
		r.Header.Set("Sec-Fetch-Site", site)
		if w := ask(f, auth, "127.0.0.1:80", r); w.Code != want || len(f.changes) != map[int]int{200: 1}[want] {
			t.Errorf("%s: status %d, want %d; changes %v", site, w.Code, want, f.changes)
		}
	}
}

func TestAnswers(t *testing.T) {
	auth := &Auth{UID: 1000, UserOf: func(net.Conn) (int, bool) { return 1000, true }}
	for _, c := range []struct {
		method, path, body string
		err                error
		status             int
		want               string
	}{
		{"GET", "/api/state", "", nil, 200, `"fabric":"f"`},
		{"GET", "/api/state", "", errors.New("no fabric"), 503, `{"error":"no fabric"}`},
		{"GET", "/metrics", "", nil, 200, "x 1"},
		{"GET", "/metrics", "", errors.New("no fabric"), 503, "no fabric"},
		{"GET", "/other", "", nil, 404, "not found"},
		{"GET", "/api/history?hop=node0+tx", "", nil, 200, `"hop":"node0 tx"`},
		{"GET", "/api/history?hop=x", "", errors.New("no hop x"), 404, `{"error":"no hop x"}`},
		{"GET", "/api/shape", "", nil, 405, "Method Not Allowed"},
		{"POST", "/api/shape", `{"link":"a","set":{"lat":"1us"},"state":"up"}`, nil, 200, `{"text":"changed"}`},
		{"POST", "/api/shape", `{"lonk":"a"}`, nil, 400, `unknown field`},
		{"POST", "/api/shape", `{`, nil, 400, "read the change"},
		{"POST", "/api/shape", `{"link":"` + strings.Repeat("x", 1<<16) + `"}`, nil, 400, "too large"},
		{"POST", "/api/shape", `{}`, errors.New("wrong value"), 400, `{"error":"wrong value"}`},
		{"POST", "/api/shape", `{}`, fmt.Errorf("%w: broken", ErrInternal), 500, "broken"},
	} {
		w := ask(&fake{err: c.err}, auth, "127.0.0.1:80",
			httptest.NewRequest(c.method, c.path, strings.NewReader(c.body)))
		if w.Code != c.status || !strings.Contains(w.Body.String(), c.want) {
			t.Errorf("%s %s %.60s: status %d, %.200q; want %d, %q", c.method, c.path, c.body, w.Code, w.Body, c.status,
				c.want)
		}
	}
}
