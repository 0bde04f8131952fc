// SPDX-License-Identifier: Apache-2.0

// Package baseline compares the times of a run with the times of an earlier run, by the JSON output of both.
package baseline

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"github.com/ddlemu/ddlemu/configs"
)

// The commands whose JSON is read.
const (
	Bench          = "bench"
	Expect         = "expect"
	ExpectWorkload = "expect --workload"
	Replay         = "replay"
)

// Names of settings by which others are judged.
const (
	Profile = "profile"
	Fabric  = "fabric" // what links have otherwise than the profile
	Clock   = "clock"
)

// Setting is a choice of the user's on which times depend.
type Setting struct {
	Name, Value string // Value is "" if the output does not have it
	// Detail says that it is a value of links: they are not named if the profiles, or the settings that differ from them,
	// are named.
	Detail bool
}

// Run is what an output says.
type Run struct {
	Command  string // that wrote it
	NCCL     string // its version
	Verdict  string // "" if all times are calculated
	Settings []Setting
	Times    []Time // in the order of the output
}

// Time is one time of a run.
type Time struct {
	What   string // unique in a run
	US     float64
	Choice string // of NCCL: algorithm, protocol and channels; "" if not known
}

// output has the keys of all outputs that are needed.
type output struct {
	Settings
	Header   *Settings `json:"header"` // of bench
	Verdict  string    `json:"verdict"`
	Forecast bool      `json:"forecast"`
	Rows     []row     `json:"rows"`
	Steps    []step    `json:"steps"`
	Calls    []calls   `json:"calls"`
}

// Settings are the settings of a run as its output has them. A command has no part of them, whose values are zero.
type Settings struct {
	NCCL       string  `json:"nccl"`
	CUDA       string  `json:"cuda"`
	Profile    string  `json:"profile"`
	Datapath   string  `json:"datapath"`
	Clock      string  `json:"clock"`
	Ranks      int     `json:"ranks"`
	Nodes      int     `json:"nodes"`
	Collective string  `json:"collective"`
	Workload   string  `json:"workload"`
	Warmup     *int    `json:"warmup"`
	Iters      int     `json:"iters"`
	Root       *int    `json:"root"`
	Seed       *uint64 `json:"seed"`
	// what fabric_in_force leaves out of its JSON
	Changes string          `json:"in_force"`
	Fabric  configs.InForce `json:"fabric_in_force"`
}

type row struct {
	Size       int64    `json:"size"`
	Type       string   `json:"type"`
	RedOp      string   `json:"redop"`
	Root       int      `json:"root"`
	InPlace    bool     `json:"inplace"`
	TimeUS     *float64 `json:"time_us"`
	ExpectedUS *float64 `json:"expected_us"`
	choice
}

type choice struct {
	Algo     string `json:"algo"`
	Proto    string `json:"proto"`
	Channels int    `json:"channels"`
}

type step struct {
	TimeUS float64 `json:"time_us"`
}

type calls struct {
	Func   string  `json:"func"`
	Comm   string  `json:"comm"`
	Ranks  int     `json:"ranks"`
	Size   int64   `json:"size"`
	MeanUS float64 `json:"mean_us"`
	choice
}

// errOther refuses a document of something else.
var errOther = errors.New("it is not the JSON of one run of ddlemu bench, expect or replay: make it with --json")

// Read reads an output: one JSON document.
func Read(document []byte) (*Run, error) {
	if text := strings.TrimSpace(string(document)); !strings.HasPrefix(text, "{") {
		return nil, errOther
	}
	var o output
	if err := json.Unmarshal(document, &o); err != nil {
		return nil, fmt.Errorf("%w (%w)", errOther, err)
	}
	r := &Run{NCCL: o.NCCL, Verdict: o.Verdict}
	switch {
	case o.Header != nil:
		r.Command, r.NCCL, r.Settings = Bench, o.Header.NCCL, o.Header.List()
		r.addRows(o.Rows, func(w *row) *float64 { return w.TimeUS })
	case o.Steps != nil && o.Forecast:
		r.Command, r.Settings, r.Verdict = ExpectWorkload, o.List(), ""
		r.addSteps(&o)
	case o.Steps != nil:
		r.Command, r.Settings = Replay, o.List()
		r.addSteps(&o)
	case o.Rows != nil && o.Profile != "":
		r.Command, r.Settings = Expect, o.List()
		r.addRows(o.Rows, func(w *row) *float64 { return w.ExpectedUS })
	default:
		return nil, errOther
	}
	r.number()
	return r, nil
}

// List is all settings, those without a value too: an output may have a setting that another one does not have.
func (s *Settings) List() []Setting {
	in := &s.Fabric
	out := []Setting{{Name: Profile, Value: in.Profile}, {Name: Fabric, Value: s.Changes},
		{Name: "transport", Value: in.Transport}, {Name: "congestion control", Value: in.Congestion},
		{Name: "topology", Value: in.Topology}, {Name: "NICs per node", Value: strconv.Itoa(in.NICs)},
		{Name: "GPU", Value: in.GPU}, {Name: "GPU time", Value: in.GPUTime}}
	link := reflect.ValueOf(in.Link)
	for i := range link.NumField() {
		name, _, _ := strings.Cut(link.Type().Field(i).Tag.Get("json"), ",")
		out = append(out, Setting{name, fmt.Sprint(link.Field(i)), true})
	}
	return append(out, []Setting{
		{Name: "ranks", Value: strconv.Itoa(s.Ranks)}, {Name: "nodes", Value: strconv.Itoa(s.Nodes)},
		{Name: "seed", Value: number(s.Seed)}, {Name: "collective", Value: s.Collective},
		{Name: "iterations", Value: strconv.Itoa(s.Iters)}, {Name: "datapath", Value: s.Datapath},
		{Name: Clock, Value: s.Clock}, {Name: "CUDA", Value: s.CUDA}, {Name: "warm-up iterations", Value: number(s.Warmup)},
		{Name: "root", Value: number(s.Root)}, {Name: "workload", Value: s.Workload},
	}...)
}

func number[T int | uint64](v *T) string {
	if v == nil {
		return ""
	}
	return fmt.Sprint(*v)
}

// addRows adds rows of a collective that have a time.
func (r *Run) addRows(rows []row, timeOf func(*row) *float64) {
	for i := range rows {
		w := &rows[i]
		t := timeOf(w)
		if t == nil {
			continue
		}
		what := fmt.Sprintf("%d bytes %s", w.Size, w.Type)
		if w.RedOp != "" && w.RedOp != "none" {
			what += " " + w.RedOp
		}
		if w.Root > 0 {
			what += fmt.Sprintf(" root %d", w.Root)
		}
		if r.Command == Bench && w.InPlace {
			what += " in place"
		} else if r.Command == Bench {
			what += " out of place"
		}
		r.Times = append(r.Times, Time{what, *t, w.choice.String()})
	}
}

// addSteps adds the steps of a workload and the means of its kinds of calls.
func (r *Run) addSteps(o *output) {
	for i, s := range o.Steps {
		r.Times = append(r.Times, Time{What: fmt.Sprintf("step %d", i+1), US: s.TimeUS})
	}
	for _, c := range o.Calls {
		what := fmt.Sprintf("%s of %s on %d ranks, %d bytes", c.Func, c.Comm, c.Ranks, c.Size)
		r.Times = append(r.Times, Time{what, c.MeanUS, c.choice.String()})
	}
}

// number makes the names of times unique: bench can measure a row several times.
func (r *Run) number() {
	seen := map[string]int{}
	for i := range r.Times {
		what := r.Times[i].What
		if seen[what]++; seen[what] > 1 {
			r.Times[i].What = fmt.Sprintf("%s, time %d", what, seen[what])
		}
	}
}

func (c choice) String() string {
	text := strings.TrimSpace(c.Algo + " " + c.Proto)
	if text != "" && c.Channels > 0 {
		text += " x" + strconv.Itoa(c.Channels)
	}
	return text
}
