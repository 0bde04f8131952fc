// SPDX-License-Identifier: Apache-2.0

// Package diff compares two recorded runs: which calls took longer, and by which cause.
package diff

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/intercept/messages"
	"github.com/ddlemu/ddlemu/intercept/why"
	"github.com/ddlemu/ddlemu/shaper/report/compare"
)

// Run is one recorded run.
type Run struct {
	Trace  *messages.Trace
	Report *why.Report
}

// Times are the same thing in both runs, in ns of the emulated network.
type Times struct {
	A int64 `json:"a_ns"`
	B int64 `json:"b_ns"`
}

// Delta is how much longer it took in the second run.
func (t Times) Delta() int64 { return t.B - t.A }

// Result is what differs. It compares the calls that both runs have: the first call of a function with the
// first one, and so on.
type Result struct {
	All       Times
	Functions []Function // those with the largest differences first
	Causes    []Cause    // of all functions, those with the largest differences first
	Choices   []Choice
	Sent      []Choice       // of functions whose calls sent something else, although NCCL's choices are the same
	Only      [2][]Unmatched // calls that only one run has
}

// Function is the calls of one function.
type Function struct {
	Name  string `json:"function"`
	Calls int    `json:"calls"`
	Times
}

// Cause is the time that one cause took.
type Cause struct {
	Text string `json:"cause"`
	Times
}

// Choice is what NCCL chose for the calls of a function and what they sent, in words.
type Choice struct {
	Function string `json:"function"`
	A        string `json:"a"`
	B        string `json:"b"`
}

// Unmatched is calls that the other run does not have.
type Unmatched struct {
	Function string `json:"function"`
	Calls    int    `json:"calls"`
}

// Of compares two runs.
func Of(a, b *Run) *Result {
	r := &Result{Functions: []Function{}, Causes: []Cause{}, Choices: []Choice{}, Sent: []Choice{}}
	joined := compare.Rows(a.calls(), b.calls(), func(c *why.Explained) string { return c.Name })
	causes := map[string]*Times{}
	for side, only := range joined.Only {
		for _, name := range names(only) {
			r.Only[side] = append(r.Only[side], Unmatched{name, len(named(only, name))})
		}
	}
	var both [2][]*why.Explained
	for _, p := range joined.Pairs {
		both[0], both[1] = append(both[0], p[0]), append(both[1], p[1])
	}
	for _, name := range names(both[0]) {
		of := [2][]*why.Explained{named(both[0], name), named(both[1], name)}
		f := Function{Name: name, Calls: len(of[0])}
		f.A, f.B = a.sum(of[0], causes, first), b.sum(of[1], causes, second)
		r.Functions = append(r.Functions, f)
		r.All.A, r.All.B = r.All.A+f.A, r.All.B+f.B
		was, is := a.choices(of[0]), b.choices(of[1])
		sentA, sentB := sent(of[0]), sent(of[1])
		switch {
		case was != is:
			r.Choices = append(r.Choices, Choice{name, was + "; " + sentA, is + "; " + sentB})
		case sentA != sentB:
			r.Sent = append(r.Sent, Choice{name, sentA, sentB})
		}
	}
	for text, t := range causes {
		r.Causes = append(r.Causes, Cause{text, *t})
	}
	slices.SortFunc(r.Causes, func(x, y Cause) int {
		return cmp.Or(cmp.Compare(abs(y.Delta()), abs(x.Delta())), cmp.Compare(x.Text, y.Text))
	})
	slices.SortStableFunc(r.Functions, func(x, y Function) int { return cmp.Compare(abs(y.Delta()), abs(x.Delta())) })
	return r
}

func abs(n int64) int64 { return max(n, -n) }

func first(t *Times) *int64  { return &t.A }
func second(t *Times) *int64 { return &t.B }

// calls are the calls in the order of their starts, without those of a warm-up.
func (r *Run) calls() (all []*why.Explained) {
	for i := range r.Report.Calls {
		if c := &r.Report.Calls[i]; !c.Warmup {
			all = append(all, c)
		}
	}
	return all
}

// named are the calls of a function.
func named(calls []*why.Explained, name string) []*why.Explained {
	return slices.DeleteFunc(slices.Clone(calls), func(c *why.Explained) bool { return c.Name != name })
}

// names are the functions of calls.
func names(calls []*why.Explained) (all []string) {
	for _, c := range calls {
		all = append(all, c.Name)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// sum adds the parts of calls to causes, and returns their time.
func (r *Run) sum(calls []*why.Explained, causes map[string]*Times, side func(*Times) *int64) (ns int64) {
	var parts []why.Part
	for _, c := range calls {
		ns += c.Ns()
		parts = append(parts, c.Path...)
	}
	scale := r.Trace.Ranks[0].TimeScale
	for _, p := range why.Totals(parts) {
		text := p.String()
		if causes[text] == nil {
			causes[text] = &Times{}
		}
		*side(causes[text]) += p.Ns / scale
	}
	return ns / scale
}

// sent is how much calls sent.
func sent(calls []*why.Explained) string {
	n, bytes := 0, uint64(0)
	for _, c := range calls {
		n, bytes = n+len(c.Messages), bytes+c.Bytes
	}
	return fmt.Sprintf("%s, %d bytes", units.Count(n, "message"), bytes)
}

// choices are the algorithms, protocols and channels of calls.
func (r *Run) choices(calls []*why.Explained) string {
	count := map[string]int{}
	for _, c := range calls {
		count[r.choice(c)]++
	}
	all := slices.SortedFunc(maps.Keys(count),
		func(a, b string) int { return cmp.Or(cmp.Compare(count[b], count[a]), cmp.Compare(a, b)) })
	for i, text := range all {
		if len(all) > 1 {
			all[i] = fmt.Sprintf("%s (%d of %d)", text, count[text], len(calls))
		}
	}
	return strings.Join(all, ", ")
}

// choice is what NCCL chose for one call.
func (r *Run) choice(c *why.Explained) string {
	channels := map[int]bool{}
	for _, i := range c.Messages {
		if ch := r.Trace.Messages[i].Channel; ch >= 0 {
			channels[ch] = true
		}
	}
	x := &r.Trace.Tasks[c.Tasks[0]]
	text := strings.TrimSpace(x.Algo + " " + x.Proto)
	if n := len(channels); n > 0 {
		text = strings.TrimSpace(fmt.Sprintf("%s channels: %d", text, n))
	}
	return cmp.Or(text, "not known")
}

// Setting is a setting of a fabric that differs. A or B is "" if that fabric does not have it.
type Setting struct {
	Name string `json:"setting"`
	A    string `json:"a"`
	B    string `json:"b"`
}

// Settings compares two fabric files.
func Settings(a, b []byte) ([]Setting, error) {
	var flat [2]map[string]string
	for i, text := range [][]byte{a, b} {
		var document yaml.Node
		if err := yaml.Unmarshal(text, &document); err != nil {
			return nil, fmt.Errorf("read a fabric: %w", err)
		}
		flat[i] = map[string]string{}
		for _, tree := range document.Content {
			if err := flatten(flat[i], "", tree); err != nil {
				return nil, err
			}
		}
	}
	var names []string
	for _, all := range flat {
		names = slices.AppendSeq(names, maps.Keys(all))
	}
	slices.Sort(names)
	out := []Setting{}
	for _, name := range slices.Compact(names) {
		a, b := flat[0][name], flat[1][name]
		if name == "gpus_per_node" && (a == "" || b == "") {
			continue // without it, the ranks that join say how many there are
		}
		if a != b {
			out = append(out, Setting{name, a, b})
		}
	}
	return out, nil
}

// flatten puts the leaves of a tree into all, named by their paths, but for where the figures are from, which is long
// and changes nothing.
func flatten(all map[string]string, path string, tree *yaml.Node) error {
	switch tree.Kind {
	case yaml.MappingNode:
		for i := 0; i < len(tree.Content); i += 2 {
			name := tree.Content[i].Value
			if path == "" && (name == "sources" || name == "fitted_to") {
				continue
			}
			if path != "" {
				name = path + "." + name
			}
			if err := flatten(all, name, tree.Content[i+1]); err != nil {
				return err
			}
		}
	case yaml.SequenceNode:
		for i, sub := range tree.Content {
			if err := flatten(all, fmt.Sprintf("%s[%d]", path, i), sub); err != nil {
				return err
			}
		}
	case yaml.AliasNode: // it could stand for a tree of any size
		return fmt.Errorf("read a fabric: line %d: an alias: ddlemu writes none, so the file was changed", tree.Line)
	default:
		if tree.Tag != "!!null" {
			all[path] = tree.Value
		}
	}
	return nil
}
