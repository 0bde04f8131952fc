// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/ddlemu/ddlemu/configs/bounds"
)

// reader reads a workload line by line. It checks of each line what needs no other line; [Workload.Index] checks the
// rest.
type reader struct {
	file  string
	in    *bufio.Reader
	line  int   // the line that was read last
	lines int   // how many lines of operations the head promises, -1 if it does not say
	bytes int64 // read so far
	// ranks and texts have each list and each short text once, however many lines have it.
	ranks  map[string]Ranks
	texts  map[string]string
	listed int
}

// headLine is the first line of a file.
type headLine struct {
	Head
	// Lines is the number of lines after the head, so that a cut file is noticed.
	Lines *int `json:"lines,omitempty"`
}

// A file is read with the texts of its lists of ranks, which are expanded later: a text of a few bytes can be a list of
// a million ranks.
type (
	headText struct {
		headLine
		Comms []commText `json:"comms"`
	}
	commText struct {
		Comm
		Ranks *rankText `json:"ranks"`
	}
	opText struct {
		Op
		Ranks *rankText `json:"rank"`
		Ops   []opText  `json:"ops"`
	}
)

// rankText is a list of ranks that is not expanded yet.
type rankText string

func (t *rankText) UnmarshalJSON(data []byte) error {
	text := string(data)
	if len(data) > 0 && data[0] == '"' {
		if err := json.Unmarshal(data, &text); err != nil {
			return err
		}
	}
	*t = rankText(text)
	return nil
}

// head reads the head.
func (r *reader) head() (*Head, error) {
	data, err := r.next()
	if errors.Is(err, io.EOF) {
		return nil, r.fail(errors.New("the file is empty"))
	}
	if err != nil {
		return nil, err
	}
	var head headText
	if err := r.decode(data, &head); err != nil {
		var probe struct{ Format *string }
		if json.Unmarshal(data, &probe) != nil || probe.Format == nil || *probe.Format != Format {
			err = fmt.Errorf(`this is no head of a workload, {"format":%q,"ranks":2}: %w`, Format, err)
		}
		return nil, r.fail(err)
	}
	h := head.Head
	for _, c := range head.Comms {
		if c.Comm.Ranks, err = r.list(c.Ranks); err != nil {
			return nil, r.fail(fmt.Errorf("communicator %s: %w", c.Name, err))
		}
		h.Comms = append(h.Comms, c.Comm)
	}
	if err := h.validate(); err != nil {
		return nil, r.fail(err)
	}
	if head.Lines != nil {
		if *head.Lines < 0 {
			return nil, r.fail(fmt.Errorf("lines %d: must not be negative", *head.Lines))
		}
		r.lines = *head.Lines
	}
	return &h, nil
}

// nextOp returns the next operation, io.EOF after the last one.
func (r *reader) nextOp() (*Op, error) {
	data, err := r.next()
	if errors.Is(err, io.EOF) && r.lines >= 0 && r.line-1 != r.lines {
		return nil, r.fail(
			fmt.Errorf(
				"the file ends after %d operations and its head promises %d: it is cut, or correct \"lines\" in "+
					"line 1", r.line-1, r.lines))
	}
	if err != nil {
		return nil, err
	}
	if r.lines >= 0 && r.line-1 > r.lines {
		return nil, r.fail(
			fmt.Errorf(
				"the head promises %d operations and here is another one: correct \"lines\" in line 1, or remove "+
					"it there", r.lines))
	}
	var l opText
	if err := r.decode(data, &l); err != nil {
		return nil, r.fail(err)
	}
	o, err := r.op(&l)
	if err == nil {
		err = o.validate()
	}
	if err != nil {
		return nil, r.fail(err)
	}
	return o, nil
}

// next returns the next line, io.EOF after the last one.
func (r *reader) next() ([]byte, error) {
	var line []byte
	for {
		part, err := r.in.ReadSlice('\n')
		r.bytes += int64(len(part))
		whole := !errors.Is(err, bufio.ErrBufferFull)
		if whole && line == nil {
			line = part
		} else {
			line = append(line, part...)
		}
		if len(line) > MaxLine {
			r.line++
			return nil, r.fail(fmt.Errorf("the line is longer than %d bytes", MaxLine))
		}
		if !whole {
			continue
		}
		if err != nil && err != io.EOF {
			r.line++
			return nil, r.fail(err)
		}
		if err == io.EOF && len(bytes.TrimSpace(line)) == 0 {
			return nil, io.EOF
		}
		r.line++
		if len(bytes.TrimSpace(line)) == 0 {
			return nil, r.fail(errors.New("the line is empty: remove it"))
		}
		return line, nil
	}
}

// decode reads one JSON object, without fields that do not exist.
func (r *reader) decode(data []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	err := d.Decode(v)
	if err == nil {
		if _, end := d.Token(); end != io.EOF {
			return errors.New("there is more than one JSON object in the line")
		}
		return nil
	}
	var kind *json.UnmarshalTypeError
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF) && data[len(data)-1] != '\n':
		return errors.New("the file ends within this line: it is cut")
	case errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("the JSON object does not end in this line")
	case errors.As(err, &kind):
		// The path of the field has names of Go's embedded structs, which the file does not have.
		field := kind.Field[strings.LastIndex(kind.Field, ".")+1:]
		return fmt.Errorf("%s: it is a JSON %s, and must be of the type %s", field, kind.Value, kind.Type)
	}
	text := strings.TrimPrefix(err.Error(), "json: ")
	if quoted, found := strings.CutPrefix(text, "unknown field "); found {
		if name, err := strconv.Unquote(quoted); err == nil {
			return unknown("field", name, fieldsOf(reflect.TypeOf(v).Elem()))
		}
	}
	return errors.New(text)
}

// fieldsOf are the names of the fields of a JSON object of type t, and of the objects in it.
func fieldsOf(t reflect.Type) []string {
	var names []string
	seen := map[reflect.Type]bool{}
	var add func(t reflect.Type)
	add = func(t reflect.Type) {
		for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
			t = t.Elem()
		}
		if t.Kind() != reflect.Struct || seen[t] {
			return
		}
		seen[t] = true
		for _, f := range reflect.VisibleFields(t) {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if name != "" && !slices.Contains(names, name) {
				names = append(names, name)
			}
			if !f.Anonymous {
				add(f.Type)
			}
		}
	}
	add(t)
	return names
}

// op makes the operation of a line. Equal lists and texts share their memory.
func (r *reader) op(l *opText) (*Op, error) {
	o := l.Op
	var err error
	if o.Ranks, err = r.list(l.Ranks); err != nil {
		return nil, err
	}
	if len(o.After) == 0 {
		o.After = nil
	}
	for _, text := range []*string{(*string)(&o.Kind), &o.Name, &o.Stream, &o.Comm, (*string)(&o.Func), &o.Type,
		&o.RedOp} {
		*text = r.text(*text)
	}
	for i := range l.Ops {
		part, err := r.op(&l.Ops[i])
		if err != nil {
			return nil, fmt.Errorf("operation %d of the group: %w", i+1, err)
		}
		o.Ops = append(o.Ops, *part)
	}
	return &o, nil
}

// list is the ranks of a text, none if there is no text.
func (r *reader) list(t *rankText) (Ranks, error) {
	if t == nil {
		return nil, nil
	}
	text := string(*t)
	if ranks, ok := r.ranks[text]; ok {
		return ranks, nil
	}
	ranks, err := ParseRanks(text)
	if err != nil {
		return nil, err
	}
	if r.listed += len(ranks); r.listed > MaxListed {
		return nil, fmt.Errorf("the different lists of ranks have more than %d ranks together", MaxListed)
	}
	r.ranks[text] = ranks
	return ranks, nil
}

// text is a copy of s, the same one for equal texts as long as there are not too many.
func (r *reader) text(s string) string {
	const most = 1 << 16
	if t, ok := r.texts[s]; ok {
		return t
	}
	if len(r.texts) < most && len(s) < 256 {
		r.texts[s] = s
	}
	return s
}

func (r *reader) fail(err error) error {
	return &LineError{File: r.file, Line: max(r.line, 1), Err: err}
}

// Read reads a whole workload and checks it. File is the name for errors, each of which is a [*LineError].
func Read(file string, in io.Reader) (*Workload, error) {
	defer bounds.CollectEarly()()
	r := &reader{file: file, in: bufio.NewReaderSize(in, 1<<16), lines: -1, ranks: map[string]Ranks{},
		texts: map[string]string{}}
	head, err := r.head()
	if err != nil {
		return nil, err
	}
	w := &Workload{Head: *head}
	for ops := 0; ; {
		o, err := r.nextOp()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		if ops += 1 + len(o.Ops); ops > MaxOps {
			return nil, r.fail(fmt.Errorf("a workload of more than %d operations does not fit", MaxOps))
		}
		if r.bytes > MaxBytes {
			return nil, r.fail(fmt.Errorf("a workload of more than %d bytes does not fit", int64(MaxBytes)))
		}
		w.Ops = append(w.Ops, *o)
	}
	if err := w.Validate(); err != nil {
		if line, ok := errors.AsType[*LineError](err); ok {
			line.File = file
		}
		return nil, err
	}
	return w, nil
}

// ReadFile reads a whole workload and checks it.
func ReadFile(path string) (*Workload, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read the workload: %w", err)
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.IsDir() {
		return nil, fmt.Errorf("read the workload: %s is a folder", path)
	}
	return Read(path, f)
}
