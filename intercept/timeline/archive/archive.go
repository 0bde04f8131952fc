// SPDX-License-Identifier: Apache-2.0

// Package archive puts a Perfetto trace and PyTorch's traces into one ZIP archive, with a manifest that
// says how their clocks are related. Perfetto opens it as one timeline.
package archive

import (
	"archive/zip"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
)

// ours is the name of the own trace in the archive.
const ours = "ddlemu.pftrace"

// Trace is a JSON trace of PyTorch's profiler (Kineto).
type Trace struct {
	Path string
	Base int64 // ns since 1970: what its times are counted from
	// The times of its events, in ns since 1970.
	First, Last int64
}

// open opens a file, which may be compressed.
func (t *Trace) open() (io.ReadCloser, error) {
	f, err := os.Open(t.Path)
	if err != nil {
		return nil, err
	}
	if !strings.HasSuffix(t.Path, ".gz") {
		return f, nil
	}
	z, err := gzip.NewReader(f)
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("unpack %s: %w", t.Path, err)
	}
	return struct {
		io.Reader
		io.Closer
	}{z, f}, nil
}

var (
	errNoTrace = errors.New("no trace of PyTorch's profiler: it has no traceEvents with times")
	errNoClock = errors.New(
		"this PyTorch was built without Kineto (Debian's is): the times in its traces are of no clock")
)

// Read looks through a trace.
func Read(path string) (*Trace, error) {
	t := &Trace{Path: path}
	r, err := t.open()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	if err := t.scan(json.NewDecoder(r)); err != nil {
		return nil, fmt.Errorf("read the trace %s: %w", path, err)
	}
	return t, nil
}

// scan finds what the times are counted from, and the first and last one.
func (t *Trace) scan(d *json.Decoder) error {
	s := scanner{d: d, first: math.Inf(1), last: math.Inf(-1)}
	if err := s.object(); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return err
	}
	if s.first > s.last {
		return errNoTrace
	}
	t.Base = s.base
	t.First, t.Last = s.base+int64(1000*s.first), s.base+int64(1000*s.last)
	return nil
}

// scanner reads a trace, which may be larger than the memory.
type scanner struct {
	d           *json.Decoder
	base        int64
	first, last float64 // us
}

// object reads the whole trace.
func (s *scanner) object() error {
	if t, err := s.d.Token(); err != nil {
		return err
	} else if t == json.Delim('[') {
		return errNoClock
	} else if t != json.Delim('{') {
		return errNoTrace
	}
	for s.d.More() {
		key, err := s.d.Token()
		if err != nil {
			return err
		}
		switch key {
		case "baseTimeNanoseconds":
			err = s.d.Decode(&s.base)
		case "traceEvents":
			err = s.events()
		default:
			err = s.d.Decode(new(json.RawMessage))
		}
		if err != nil {
			return err
		}
	}
	_, err := s.d.Token()
	return err
}

// events reads the times of all events.
func (s *scanner) events() error {
	if t, err := s.d.Token(); err != nil {
		return err
	} else if t != json.Delim('[') {
		return errNoTrace
	}
	for s.d.More() {
		var e struct {
			Phase string   `json:"ph"`
			Time  *float64 `json:"ts"`
		}
		if err := s.d.Decode(&e); err != nil {
			return err
		}
		if e.Time != nil && e.Phase != "M" {
			s.first, s.last = min(s.first, *e.Time), max(s.last, *e.Time)
		}
	}
	_, err := s.d.Token()
	return err
}

// The manifest, by https://perfetto.dev/docs/reference/perfetto-manifest.
type (
	manifest struct {
		Version   int      `json:"version"`
		TraceTime clock    `json:"trace_time"`
		Files     []member `json:"files"`
	}
	clock struct {
		Clock string `json:"clock"`
		File  string `json:"file"`
	}
	member struct {
		Path    string    `json:"path"`
		Machine name      `json:"machine"`
		Clocks  *relation `json:"clocks,omitempty"`
	}
	name struct {
		Name string `json:"name"`
	}
	relation struct {
		To     clock `json:"sync_to"`
		Offset int64 `json:"offset_ns"`
	}
)

// names are the names of the traces in the archive, which differ.
func names(with []*Trace) []string {
	used := map[string]bool{ours: true}
	out := make([]string, len(with))
	for i, t := range with {
		base := strings.TrimSuffix(filepath.Base(t.Path), ".gz")
		out[i] = base
		for n := 2; used[out[i]]; n++ {
			out[i] = fmt.Sprintf("%d-%s", n, base)
		}
		used[out[i]] = true
	}
	return out
}

// Write writes an archive. write writes the own trace, whose times are of CLOCK_REALTIME.
func Write(w io.Writer, with []*Trace, write func(w io.Writer) error) error {
	const realtime = "REALTIME"
	z := zip.NewWriter(w)
	m := manifest{Version: 1, TraceTime: clock{realtime, ours},
		Files: []member{{Path: ours, Machine: name{"emulated network"}}}}
	all := names(with)
	for i, t := range with {
		m.Files = append(m.Files, member{all[i], name{all[i]}, &relation{clock{realtime, ours}, t.Base}})
	}
	text, err := json.MarshalIndent(map[string]manifest{"perfetto_manifest": m}, "", "  ")
	if err != nil {
		return fmt.Errorf("write the manifest: %w", err)
	}
	if err := add(z, "perfetto_manifest.json",
		func(w io.Writer) error { _, err := w.Write(text); return err }); err != nil {
		return err
	}
	if err := add(z, ours, write); err != nil {
		return err
	}
	for i, t := range with {
		if err := add(z, all[i], t.copyTo); err != nil {
			return err
		}
	}
	return z.Close()
}

func add(z *zip.Writer, name string, write func(w io.Writer) error) error {
	w, err := z.Create(name)
	if err != nil {
		return fmt.Errorf("add %s to the archive: %w", name, err)
	}
	return write(w)
}

func (t *Trace) copyTo(w io.Writer) error {
	r, err := t.open()
	if err != nil {
		return err
	}
	defer r.Close()
	if _, err := io.Copy(w, r); err != nil {
		return fmt.Errorf("add %s to the archive: %w", t.Path, err)
	}
	return nil
}
