// SPDX-License-Identifier: Apache-2.0

package flightrec

import (
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/ddlemu/ddlemu/shaper/workload"
	"github.com/ddlemu/ddlemu/shaper/workload/formats/input"
)

// MaxEntries is the maximum number of calls of all dumps of a job that [ReadJob] reads, more than the calls of 1024
// ranks with PyTorch's default of 2000 calls. Each takes about 70 bytes.
const MaxEntries = 2_500_000

// reader reads dumps. What many calls have in common is kept once.
type reader struct {
	limit     *input.Limit
	entries   int
	groups    map[GroupName]*GroupName
	functions map[string]*Function
	tensors   map[string]*Tensors
	places    map[string]*string
	key       []byte
}

func newReader(limit *input.Limit) *reader {
	return &reader{limit: limit, groups: map[GroupName]*GroupName{}, functions: map[string]*Function{},
		tensors: map[string]*Tensors{}, places: map[string]*string{}}
}

// dump reads one file.
func (r *reader) dump(f input.File) (*Dump, error) {
	in, err := f.Open()
	if err != nil {
		return nil, err
	}
	defer in.Close()
	d := &Dump{File: f.Name, Rank: rankOfName(f.Name), Groups: map[string]GroupConfig{}}
	head, _ := in.Peek(1)
	if len(head) == 1 && head[0] == '{' {
		err = r.json(in, d)
	} else {
		err = r.pickle(in, d)
	}
	return d, err
}

var errNoDump = errors.New("no dump of a flight recorder: it has neither entries nor pg_config")

// record is one entry as it is written.
type record struct {
	Record     *int64     `json:"record_id"`
	PG         int64      `json:"pg_id"`
	Group      []string   `json:"process_group"`
	Coll       *int64     `json:"collective_seq_id"`
	P2P        int64      `json:"p2p_seq_id"`
	Seq        int64      `json:"seq_id"` // before version 2
	Name       string     `json:"profiling_name"`
	Created    int64      `json:"time_created_ns"`
	In         [][]int64  `json:"input_sizes"`
	InTypes    []string   `json:"input_dtypes"`
	Out        [][]int64  `json:"output_sizes"`
	OutTypes   []string   `json:"output_dtypes"`
	State      string     `json:"state"`
	Retired    bool       `json:"retired"`
	IsP2P      bool       `json:"is_p2p"`
	Frames     []codeLine `json:"frames"`
	Plain      bool       `json:"-"` // of PyTorch 2.2
	wrongTypes bool       // a field was of another type than expected
}

// codeLine is a frame of a call stack.
type codeLine struct {
	Name     string `json:"name"`
	Filename string `json:"filename"`
	Line     int64  `json:"line"`
}

// add adds a record to a dump.
func (r *reader) add(d *Dump, rec *record) error {
	if r.entries++; r.limit == nil && r.entries > MaxEntries {
		return fmt.Errorf("more than %d calls: give the dumps of fewer ranks", MaxEntries)
	}
	if err := r.limit.Add(); err != nil {
		return err
	}
	e := Entry{Record: int64(d.Len()), Created: rec.Created, Retired: rec.Retired, IsP2P: rec.IsP2P}
	known := true
	switch rec.State {
	case "scheduled":
	case "started":
		e.State = Started
	case "completed":
		e.State = Completed
	default:
		known = false
	}
	if rec.Record != nil {
		e.Record = *rec.Record
	}
	e.Func = r.function(rec.Name)
	e.IsP2P = e.IsP2P || e.Func.P2P()
	coll := rec.Seq
	if rec.Coll != nil {
		coll = *rec.Coll
	} else if e.IsP2P {
		rec.P2P = rec.Seq
	}
	if !known || rec.wrongTypes || rec.Name == "" || !number(coll) || !number(rec.P2P) {
		d.Unread++
		return nil
	}
	e.Coll, e.P2P = uint32(coll), uint32(rec.P2P)
	e.Group = r.group(rec)
	e.In, e.Out = r.sizes(rec.In, rec.InTypes), r.sizes(rec.Out, rec.OutTypes)
	e.Where = r.place(rec.Frames)
	d.add(e)
	return nil
}

func number(n int64) bool { return n >= 0 && n < 1<<32 }

func (r *reader) function(name string) *Function {
	f, ok := r.functions[name]
	if !ok {
		f = parseFunction(name)
		r.functions[name] = f
	}
	return f
}

func (r *reader) group(rec *record) *GroupName {
	name := GroupName{Name: strconv.FormatInt(rec.PG, 10)} // before version 2
	// a process numbers its groups in the order in which it made them
	if rec.Plain && rec.PG == 0 {
		name.Desc = defaultGroup
	}
	if len(rec.Group) > 0 {
		name.Name = rec.Group[0]
	}
	if len(rec.Group) > 1 {
		name.Desc = rec.Group[1]
	}
	g, ok := r.groups[name]
	if !ok {
		g = &name
		r.groups[name] = g
	}
	return g
}

func (r *reader) sizes(sizes [][]int64, types []string) *Tensors {
	key := r.key[:0]
	for _, size := range sizes {
		key = append(key, '[')
		for _, n := range size {
			key = append(strconv.AppendInt(key, n, 10), ',')
		}
	}
	for _, t := range types {
		key = append(append(key, ' '), t...)
	}
	r.key = key
	t, ok := r.tensors[string(key)]
	if !ok {
		t = &Tensors{Types: append([]string(nil), types...)}
		for _, size := range sizes {
			t.Sizes = append(t.Sizes, append([]int64{}, size...))
		}
		r.tensors[string(key)] = t
	}
	return t
}

// ofPyTorch are the files of PyTorch, installed or in its source.
var ofPyTorch = regexp.MustCompile(
	`(site|dist)-packages/torch/|/torch/(distributed|nn|optim|autograd|utils|_dynamo|_inductor|fx|_functorch)/|/torch/_[a-z]+\.py$`)

// place is the innermost line of the program outside PyTorch.
func (r *reader) place(frames []codeLine) *string {
	for _, f := range frames {
		if !strings.HasSuffix(f.Filename, ".py") || ofPyTorch.MatchString(f.Filename) {
			continue
		}
		text := fmt.Sprintf("%s:%d", path.Base(f.Filename), f.Line)
		if f.Name != "" && f.Name != "<module>" {
			text += " in " + f.Name
		}
		known, ok := r.places[text]
		if !ok {
			known = &text
			r.places[text] = known
		}
		return known
	}
	return nil
}

var (
	rankWord = regexp.MustCompile(`(?i)rank[-_]?(\d{1,9})`)
	lastRank = regexp.MustCompile(`(\d{1,9})$`)
)

// rankOfName is the rank in a file's name, such as nccl_trace_rank_3 or 3.json, -1 if there is none.
func rankOfName(name string) int {
	base := filepath.Base(name)
	for _, ending := range []string{".gz", ".json", ".pickle", ".pkl", ".bin", ".txt"} {
		base = strings.TrimSuffix(base, ending)
	}
	digits := ""
	if all := rankWord.FindAllStringSubmatch(base, -1); len(all) > 0 {
		digits = all[len(all)-1][1]
	} else if m := lastRank.FindStringSubmatch(base); m != nil {
		digits = m[1]
	}
	n, err := strconv.Atoi(digits)
	if err != nil || n >= workload.MaxRanks {
		return -1
	}
	return n
}
