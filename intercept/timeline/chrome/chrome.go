// SPDX-License-Identifier: Apache-2.0

// Package chrome writes a timeline as JSON in Chrome's trace event format, which Perfetto, chrome://tracing
// and TensorBoard read.
package chrome

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strconv"

	"github.com/ddlemu/ddlemu/intercept/timeline"
)

// Writer is a timeline.Sink. The tracks of a group without a parent are the threads of a process.
type Writer struct {
	w      *bufio.Writer
	err    error // of a text that JSON cannot have
	tracks map[int]place
	arrows map[uint64]bool // that have begun
	line   []byte
	more   bool // an event is there
}

// place is where a track is.
type place struct {
	process int
	name    string // with those of its parents but the process
	counter bool
}

// NewWriter writes to w.
func NewWriter(w io.Writer) *Writer {
	c := &Writer{w: bufio.NewWriterSize(w, 1<<20), tracks: map[int]place{}, arrows: map[uint64]bool{}}
	_, c.err = c.w.WriteString(`{"displayTimeUnit":"ns","traceEvents":[`)
	return c
}

// Close ends the JSON, and returns the first error.
func (w *Writer) Close() error {
	if w.err != nil {
		return w.err
	}
	if _, err := w.w.WriteString("\n]}\n"); err != nil {
		return fmt.Errorf("write the trace: %w", err)
	}
	return w.w.Flush()
}

// quote is a JSON string.
func (w *Writer) quote(s string) []byte {
	b, err := json.Marshal(s)
	if err != nil && w.err == nil {
		w.err = err
	}
	return b
}

// begin begins an event on a track, without its end.
func (w *Writer) begin(phase string, track int) {
	w.line = w.line[:0]
	if w.more {
		w.line = append(w.line, ',')
	}
	w.more = true
	w.line = append(w.line, '\n')
	w.line = append(w.line, `{"ph":"`...)
	w.line = append(w.line, phase...)
	w.line = append(w.line, `","pid":`...)
	w.line = strconv.AppendInt(w.line, int64(w.tracks[track].process), 10)
	w.line = append(w.line, `,"tid":`...)
	w.line = strconv.AppendInt(w.line, int64(track), 10)
}

// at adds a time, which JSON has in us.
func (w *Writer) at(ns int64) {
	w.line = append(w.line, `,"ts":`...)
	w.line = strconv.AppendInt(w.line, ns/1000, 10)
	w.line = append(w.line, '.')
	w.line = append(w.line, '0'+byte(ns/100%10), '0'+byte(ns/10%10), '0'+byte(ns%10))
}

func (w *Writer) name(s string) {
	w.line = append(w.line, `,"name":`...)
	w.line = append(w.line, w.quote(s)...)
}

func (w *Writer) end() {
	w.line = append(w.line, '}')
	if _, err := w.w.Write(w.line); err != nil && w.err == nil {
		w.err = err
	}
}

// metadata names a process or thread, or orders it.
func (w *Writer) metadata(track int, what, key string, value []byte) {
	w.begin("M", track)
	w.name(what)
	w.line = append(w.line, `,"args":{"`+key+`":`...)
	w.line = append(w.line, value...)
	w.line = append(w.line, '}')
	w.end()
}

// Track is of timeline.Sink.
func (w *Writer) Track(t timeline.Track) {
	p := place{process: t.ID, name: t.Name, counter: t.Unit != ""}
	if parent, ok := w.tracks[t.Parent]; ok {
		p.process = parent.process
		if parent.name != "" {
			p.name = parent.name + ", " + t.Name
		}
	}
	order := strconv.AppendInt(nil, int64(t.Order), 10)
	if t.Parent == 0 {
		w.tracks[t.ID] = place{process: t.ID}
		w.metadata(t.ID, "process_name", "name", w.quote(t.Name))
		w.metadata(t.ID, "process_sort_index", "sort_index", order)
		return
	}
	w.tracks[t.ID] = p
	if !p.counter {
		w.metadata(t.ID, "thread_name", "name", w.quote(p.name))
		w.metadata(t.ID, "thread_sort_index", "sort_index", order)
	}
}

func (w *Writer) args(args []timeline.Arg) {
	w.line = append(w.line, `,"args":{`...)
	for i, a := range args {
		if i > 0 {
			w.line = append(w.line, ',')
		}
		w.line = append(w.line, w.quote(a.Name)...)
		w.line = append(w.line, ':')
		if a.Text != "" {
			w.line = append(w.line, w.quote(a.Text)...)
		} else {
			w.line = strconv.AppendInt(w.line, a.Value, 10)
		}
	}
	w.line = append(w.line, '}')
}

// Begin is of timeline.Sink.
func (w *Writer) Begin(e timeline.Event) {
	w.begin("B", e.Track)
	w.at(e.At)
	w.name(e.Name)
	if len(e.Args) > 0 {
		w.args(e.Args)
	}
	w.end()
	w.arrow(e)
}

// End is of timeline.Sink.
func (w *Writer) End(track int, at int64) {
	w.begin("E", track)
	w.at(at)
	w.end()
}

// Instant is of timeline.Sink.
func (w *Writer) Instant(e timeline.Event) {
	w.begin("i", e.Track)
	w.at(e.At)
	w.name(e.Name)
	w.line = append(w.line, `,"s":"t"`...)
	w.end()
	w.arrow(e)
}

// arrow begins an arrow, leads it on, or ends it at an event.
func (w *Writer) arrow(e timeline.Event) {
	if e.Arrow == 0 {
		return
	}
	phase := "t"
	switch {
	case e.Last:
		phase = "f"
	case !w.arrows[e.Arrow]:
		w.arrows[e.Arrow] = true
		phase = "s"
	}
	w.begin(phase, e.Track)
	w.at(e.At)
	w.name("message")
	w.line = append(w.line, `,"cat":"message","bp":"e","id":`...)
	w.line = strconv.AppendUint(w.line, e.Arrow, 10)
	w.end()
}

// Count is of timeline.Sink.
func (w *Writer) Count(track int, at int64, value float64) {
	w.begin("C", track)
	w.at(at)
	w.name(w.tracks[track].name)
	w.line = append(w.line, `,"args":{"value":`...)
	w.line = strconv.AppendFloat(w.line, value, 'g', -1, 64)
	w.line = append(w.line, '}')
	w.end()
}
