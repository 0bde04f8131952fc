// SPDX-License-Identifier: Apache-2.0

// Package msccl reads and writes schedules as MSCCL's XML: the files of msccl-tools (with <step>, and with <op>), of
// RCCL and of TE-CCL.
package msccl

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/ddlemu/ddlemu/shaper/workload/schedule"
)

// Limits of a file. The largest public file has 4 MB and 50 000 steps.
const (
	MaxFile   = 160 << 20 // bytes
	MaxGPUs   = 4096
	MaxBlocks = 1024 // per GPU
	MaxSteps  = 1 << 20
	MaxChunks = 1 << 20
	maxText   = 1024 // bytes of an attribute
	maxAttrs  = 24
)

// Read reads a schedule. name is the file's, for messages: each error names it and the line. What is likely not meant,
// or what MSCCL ignores, is in the schedule's Warnings.
//
// coll is what a file without coll is for; "": such a file is refused.
func Read(in io.Reader, name string, coll schedule.Collective) (*schedule.Schedule, error) {
	return readUpTo(in, name, coll, MaxFile)
}

// readUpTo is Read of a file of at most so many bytes.
func readUpTo(in io.Reader, name string, coll schedule.Collective, most int64) (*schedule.Schedule, error) {
	limited := &io.LimitedReader{R: in, N: most + 1}
	r := &reader{name: name, coll: coll, line: 1, dec: xml.NewDecoder(limited)}
	r.dec.Entity = map[string]string{} // none are known, so none can grow
	r.dec.CharsetReader = charset
	s, err := r.read()
	if err != nil {
		if limited.N <= 0 {
			err = fmt.Errorf("the file is larger than %d bytes", most)
		}
		return nil, fmt.Errorf("%s:%d: %w", name, r.line, err)
	}
	return s, nil
}

// ErrCut is the error for a file that ends before its outermost element does.
var ErrCut = errors.New("the file ends in the middle: it was cut")

// charset reads a file that declares another encoding than UTF-8.
func charset(label string, in io.Reader) (io.Reader, error) {
	switch strings.ToLower(label) {
	case "ascii", "us-ascii", "utf8":
		return in, nil
	}
	return nil, fmt.Errorf("encoding %q: must be UTF-8", clip(label))
}

type reader struct {
	name  string
	coll  schedule.Collective // of a file that does not say it
	dec   *xml.Decoder
	line  int
	s     *schedule.Schedule
	steps int
	// newer says that the file has <op> children, whose loop chunks are not stated.
	newer bool
	seen  []bool // GPUs
	last  int    // the largest number that a GPU may have
	notes map[string]bool
}

// next is the next element's start or end, nil at the end of the file.
func (r *reader) next() (xml.Token, error) {
	for {
		t, err := r.dec.Token()
		r.line, _ = r.dec.InputPos()
		if errors.Is(err, io.EOF) {
			return nil, nil
		}
		if syntax, ok := errors.AsType[*xml.SyntaxError](err); ok && strings.HasPrefix(syntax.Msg, "unexpected EOF") {
			return nil, ErrCut
		} else if syntax != nil {
			return nil, errors.New(syntax.Msg)
		}
		if err != nil {
			return nil, err
		}
		switch t := t.(type) {
		case xml.StartElement:
			return t, r.checkAttrs(t)
		case xml.EndElement:
			return t, nil
		case xml.Directive:
			return nil, errors.New("a document type or entities: a schedule has none")
		case xml.CharData:
			if text := strings.TrimSpace(strings.TrimPrefix(string(t), "\ufeff")); text != "" {
				return nil, fmt.Errorf("text %q between elements: not MSCCL's XML", clip(text))
			}
		}
	}
}

func clip(text string) string {
	if len(text) > 40 {
		return text[:40] + "..."
	}
	return text
}

func (r *reader) checkAttrs(t xml.StartElement) error {
	if len(t.Attr) > maxAttrs {
		return fmt.Errorf("<%s> has %d attributes: must be at most %d", clip(t.Name.Local), len(t.Attr), maxAttrs)
	}
	for i, a := range t.Attr {
		if len(a.Value) > maxText {
			return fmt.Errorf("attribute %s has %d bytes: must be at most %d", clip(a.Name.Local), len(a.Value),
				maxText)
		}
		for _, b := range t.Attr[:i] {
			if a.Name == b.Name {
				return fmt.Errorf("<%s> has attribute %s twice", clip(t.Name.Local), clip(a.Name.Local))
			}
		}
	}
	return nil
}

// children calls do for each child until the end of the element, or of the file if top is set.
func (r *reader) children(of string, top bool, do func(e xml.StartElement) error) error {
	for {
		t, err := r.next()
		if err != nil {
			return err
		}
		switch t := t.(type) {
		case nil:
			if top {
				return nil
			}
			return fmt.Errorf("inside <%s>: %w", of, ErrCut)
		case xml.EndElement:
			return nil
		case xml.StartElement:
			if err := do(t); err != nil {
				return err
			}
		}
	}
}

// empty reads to the end of an element that has no children.
func (r *reader) empty(of string) error {
	return r.children(of, false, func(e xml.StartElement) error {
		return fmt.Errorf("<%s> inside <%s>: must be empty", clip(e.Name.Local), of)
	})
}

// note adds a warning, once.
func (r *reader) note(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if !r.notes[text] && len(r.notes) < 64 {
		r.notes[text] = true
		r.s.Warnings = append(r.s.Warnings, text)
	}
}

func (r *reader) read() (*schedule.Schedule, error) {
	r.notes = map[string]bool{}
	err := r.children("the file", true, func(e xml.StartElement) error {
		if r.s != nil {
			return fmt.Errorf("<%s> behind the end of <algo>: a file has one schedule", clip(e.Name.Local))
		}
		if e.Name.Local != "algo" {
			return fmt.Errorf("<%s>: an MSCCL schedule is one <algo>", clip(e.Name.Local))
		}
		return r.algo(e)
	})
	if err != nil {
		return nil, err
	}
	if r.s == nil {
		return nil, errors.New("no <algo>: the file is empty, or not MSCCL's XML")
	}
	return r.s, r.finish()
}

func (r *reader) algo(e xml.StartElement) error {
	r.s = &schedule.Schedule{}
	s := r.s
	a := attrs{of: "algo", list: e.Attr}
	s.Name = a.text("name", "")
	coll, proto := a.text("coll", string(r.coll)), a.text("proto", "Simple")
	s.Channels = a.number("nchannels", 0, 0, 1<<16)
	s.LoopChunks = a.number("nchunksperloop", 0, 0, MaxChunks)
	gpus := 0
	if a.has("ngpus") {
		gpus = a.number("ngpus", -1, 1, MaxGPUs)
	} else {
		r.note("<algo> has no ngpus: MSCCL's executor refuses such a file; its <gpu> are counted")
	}
	s.InPlace = a.flag("inplace")
	if !a.has("inplace") {
		r.note(
			"<algo> has no inplace: MSCCL's executor refuses such a file; it is taken for 0, so if the schedule works " +
				"in place, add inplace=\"1\"")
	}
	if a.has("outofplace") {
		s.OutOfPlace = a.flag("outofplace")
	} else {
		s.OutOfPlace = !s.InPlace
	}
	s.MinBytes, s.MaxBytes = a.size("minBytes"), a.size("maxBytes")
	s.Grain = a.size("grain")
	a.ignore("maxcount", "nthreadblocks", "redop")
	var missing []string
	for _, name := range []string{"outofplace", "minBytes", "maxBytes"} {
		if !a.has(name) {
			missing = append(missing, name)
		}
	}
	if coll == "" {
		a.fail("attribute coll is missing: say with --coll which collective it is")
	} else if !a.has("coll") {
		r.note("<algo> has no coll: MSCCL's executor refuses such a file; it is taken for %s", coll)
	}
	if err := r.finishAttrs(&a); err != nil {
		return err
	}
	if len(missing) > 0 {
		r.note("<algo> has no %s: MSCCL's executor does not use such a file, it runs plain NCCL without saying so",
			strings.Join(missing, ", "))
	}
	var err error
	if coll == "alltonext" {
		r.note("coll alltonext is one of msccl-tools alone: it is taken for custom, so its result is not checked")
		coll = string(schedule.Custom)
	}
	if s.Coll, err = schedule.ParseCollective(coll); err != nil {
		return err
	}
	switch s.Proto = schedule.Protocol(proto); s.Proto {
	case schedule.Simple, schedule.LL, schedule.LL128:
	default:
		return fmt.Errorf("proto %q: must be Simple, LL or LL128", clip(proto))
	}
	if !s.InPlace && !s.OutOfPlace {
		r.note("inplace and outofplace are both 0: no call would use the file; it is taken for out of place")
		s.OutOfPlace = true
	}
	if s.MaxBytes != 0 && s.MaxBytes < s.MinBytes {
		return fmt.Errorf("maxBytes %d is below minBytes %d", s.MaxBytes, s.MinBytes)
	}
	return r.gpus(gpus)
}

// gpus reads the GPUs, as many as are stated, or all that there are if that is 0.
func (r *reader) gpus(stated int) error {
	r.s.GPUs, r.seen = make([]schedule.GPU, stated), make([]bool, stated)
	if r.last = stated - 1; stated == 0 {
		r.last = MaxGPUs - 1
	}
	err := r.children("algo", false, func(e xml.StartElement) error {
		if e.Name.Local != "gpu" {
			return fmt.Errorf("<%s> inside <algo>: must be <gpu>", clip(e.Name.Local))
		}
		return r.gpu(e)
	})
	if err != nil {
		return err
	}
	for i, seen := range r.seen {
		if !seen {
			return fmt.Errorf("GPU %d of %d is missing", i, len(r.seen))
		}
		for id, b := range r.s.GPUs[i].Blocks {
			if peer := max(b.Send, b.Recv); peer >= len(r.seen) {
				return fmt.Errorf("block %d of GPU %d has GPU %d as a peer: there are %d", id, i, peer, len(r.seen))
			}
		}
	}
	return nil
}

func (r *reader) gpu(e xml.StartElement) error {
	a := attrs{of: "gpu", list: e.Attr}
	id := a.number("id", -1, 0, r.last)
	var g schedule.GPU
	for b, name := range []string{"i_chunks", "o_chunks", "s_chunks"} {
		g.Chunks[b] = a.number(name, -1, 0, MaxChunks)
	}
	if err := r.finishAttrs(&a); err != nil {
		return err
	}
	for id >= len(r.seen) { // ngpus is missing
		r.s.GPUs, r.seen = append(r.s.GPUs, schedule.GPU{}), append(r.seen, false)
	}
	if r.seen[id] {
		return fmt.Errorf("GPU %d is there twice", id)
	}
	r.seen[id] = true
	byID := map[int]schedule.Block{}
	err := r.children("gpu", false, func(e xml.StartElement) error {
		switch e.Name.Local {
		case "copy":
			return r.copy(e, &g)
		case "tb":
			return r.block(e, id, byID)
		}
		return fmt.Errorf("<%s> inside <gpu>: must be <tb> or <copy>", clip(e.Name.Local))
	})
	if err != nil {
		return err
	}
	for i := range len(byID) {
		b, ok := byID[i]
		if !ok {
			return fmt.Errorf("GPU %d has %d blocks, but none with id %d", id, len(byID), i)
		}
		g.Blocks = append(g.Blocks, b)
	}
	r.s.GPUs[id] = g
	return nil
}

func (r *reader) copy(e xml.StartElement, g *schedule.GPU) error {
	a := attrs{of: "copy", list: e.Attr}
	c := schedule.Copy{From: a.number("i_off", -1, 0, MaxChunks), To: a.number("o_off", -1, 0, MaxChunks)}
	if err := r.finishAttrs(&a); err != nil {
		return err
	}
	if len(g.Copies) >= MaxChunks {
		return fmt.Errorf("more than %d <copy>", MaxChunks)
	}
	g.Copies = append(g.Copies, c)
	if r.s.OutOfPlace {
		r.note("<copy>: RCCL ignores it, so out of place its result lacks these chunks; here they are copied first")
	}
	return r.empty("copy")
}

func (r *reader) block(e xml.StartElement, gpu int, byID map[int]schedule.Block) error {
	a := attrs{of: "tb", list: e.Attr}
	id := a.number("id", -1, 0, MaxBlocks-1)
	b := schedule.Block{Line: r.line}
	b.Send, b.Recv = a.number("send", -1, -1, r.last), a.number("recv", -1, -1, r.last)
	b.Channel = a.number("chan", -1, -1, 1<<16)
	if err := r.finishAttrs(&a); err != nil {
		return err
	}
	if b.Channel < 0 {
		if b.Send >= 0 || b.Recv >= 0 {
			return fmt.Errorf("block %d of GPU %d has peers, but no channel", id, gpu)
		}
		b.Channel = 0 // a block that only copies
	}
	if _, ok := byID[id]; ok {
		return fmt.Errorf("GPU %d has two blocks with id %d", gpu, id)
	}
	if b.Send == gpu || b.Recv == gpu {
		return fmt.Errorf("block %d of GPU %d has its own GPU as a peer", id, gpu)
	}
	err := r.children("tb", false, func(e xml.StartElement) error {
		if e.Name.Local != "step" && e.Name.Local != "op" {
			return fmt.Errorf("<%s> inside <tb>: must be <step> or <op>", clip(e.Name.Local))
		}
		s, err := r.step(e, &b)
		if err == nil {
			b.Steps = append(b.Steps, s)
			err = r.empty(e.Name.Local)
		}
		return err
	})
	byID[id] = b
	return err
}

// finish checks what needs the whole file.
func (r *reader) finish() error {
	s := r.s
	if s.LoopChunks == 0 {
		if !r.newer {
			return errors.New("<algo> has no nchunksperloop")
		}
		for _, g := range s.GPUs {
			s.LoopChunks = max(s.LoopChunks, g.Chunks[schedule.Input], g.Chunks[schedule.Output])
		}
	}
	if s.LoopChunks == 0 {
		return errors.New("the buffers have no chunks")
	}
	channels := 0
	for _, g := range s.GPUs {
		for _, b := range g.Blocks {
			channels = max(channels, b.Channel+1)
		}
	}
	if s.Channels < channels {
		if s.Channels > 0 {
			r.note("nchannels is %d, but blocks use channel %d", s.Channels, channels-1)
		}
		s.Channels = channels
	}
	_, err := s.Shape()
	return err
}
