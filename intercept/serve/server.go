// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"

	"github.com/ddlemu/ddlemu/intercept/report/page"
	"github.com/ddlemu/ddlemu/intercept/serve/history"
	"github.com/ddlemu/ddlemu/shaper/engine/link"
)

// Source is the fabric that a server shows.
type Source interface {
	// State reads the fabric; the error says why it cannot, for example because it is down.
	State() (*State, error)
	// Shape changes links and returns what has changed, in words. The error is one of the input unless it wraps
	// ErrInternal.
	Shape(ctx context.Context, c Change) (string, error)
	// History is what a port or link did since the last job has begun; "" is the busiest one. The error says that there
	// is none with this name.
	History(hop string) (*history.Series, error)
	// Metrics writes the counters for Prometheus.
	Metrics(w io.Writer) error
}

// ErrInternal is wrapped by errors that are not the fault of the client.
var ErrInternal = errors.New("internal error")

// Change is a change of links, as `ddlemu shape` takes it.
type Change struct {
	Link  string            `json:"link"`  // pattern; all links between nodes if it is empty
	Set   map[string]string `json:"set"`   // values by the names of flags
	State string            `json:"state"` // up, down, or empty: it stays
}

// New makes the handler of a server. Who may use it is said by auth.
func New(s Source, auth *Auth, version string) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		// It fails only if the browser has gone.
		_ = page.Live(w, map[string]any{"version": version, "params": Params(), "counters": link.ShownCounters()})
	})
	mux.HandleFunc("GET /api/state", func(w http.ResponseWriter, _ *http.Request) {
		st, err := s.State()
		answer(w, st, err, http.StatusServiceUnavailable)
	})
	mux.HandleFunc("GET /api/history", func(w http.ResponseWriter, r *http.Request) {
		series, err := s.History(r.URL.Query().Get("hop"))
		answer(w, series, err, http.StatusNotFound)
	})
	mux.HandleFunc("POST /api/shape", func(w http.ResponseWriter, r *http.Request) {
		var c Change
		in := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<16))
		in.DisallowUnknownFields()
		if err := in.Decode(&c); err != nil {
			answer(w, nil, fmt.Errorf("read the change: %w", err), http.StatusBadRequest)
			return
		}
		text, err := s.Shape(r.Context(), c)
		status := http.StatusBadRequest
		if errors.Is(err, ErrInternal) {
			status = http.StatusInternalServerError
		}
		answer(w, map[string]string{"text": text}, err, status)
	})
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) {
		text := &bytes.Buffer{}
		if err := s.Metrics(text); err != nil {
			http.Error(w, "ddlemu: "+err.Error(), http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		_, _ = text.WriteTo(w) // the reader has gone
	})
	return headers(auth.protect(http.NewCrossOriginProtection().Handler(mux)))
}

// Serve serves until ctx ends, within limits: a client that sends or reads too slowly is disconnected, and connections
// that auth does not know are few. So others cannot keep clients with access from the server.
func Serve(ctx context.Context, l net.Listener, auth *Auth, h http.Handler) error {
	return serveWithin(ctx, standard, l, auth, h)
}

func serveWithin(ctx context.Context, within limits, l net.Listener, auth *Auth, h http.Handler) error {
	s := &http.Server{
		Handler: h, ConnContext: withConn, MaxHeaderBytes: maxHeader,
		ReadHeaderTimeout: within.header, ReadTimeout: within.body, WriteTimeout: within.answer,
		IdleTimeout: within.idle,
	}
	stop := context.AfterFunc(ctx, func() { _ = s.Close() })
	defer stop()
	if err := s.Serve(newLimiter(l, auth, within)); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve: %w", err)
	}
	return nil
}

// headers forbids that another page shows this one, and that a browser keeps it. A connection is closed after its
// request, unless the request is welcome.
func headers(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("X-Frame-Options", "DENY")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cache-Control", "no-store")
		h.Set("Connection", "close")
		next.ServeHTTP(w, r)
	})
}

// answer writes v, or an error as JSON with this status.
func answer(w http.ResponseWriter, v any, err error, status int) {
	w.Header().Set("Content-Type", "application/json")
	if err != nil {
		w.WriteHeader(status)
		v = map[string]string{"error": err.Error()}
	}
	out := json.NewEncoder(w)
	out.SetEscapeHTML(false) // no browser reads it as HTML
	_ = out.Encode(v)        // the browser has gone
}
