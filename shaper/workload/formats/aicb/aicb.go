// SPDX-License-Identifier: Apache-2.0

// Package aicb reads the CSV files of AICB: its physical workloads, which list the calls of a job, and the logs of
// runs of these, which add how long each call and computation took.
//
// A rank does the lines one after the other. If the stages of a pipeline differ, the file has a part for each, which
// begins with a line of its ranks. Groups are named, not listed: their ranks follow from their sizes, because AICB
// numbers ranks as Megatron-LM does. Sizes are in bytes, of the whole: for all_gather what comes out, for
// reduce_scatter and all_to_all what goes in.
package aicb

import (
	"encoding/csv"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/shaper/workload"
	"github.com/ddlemu/ddlemu/shaper/workload/formats/input"
)

// Read reads a file.
func Read(f input.File, o input.Options) (*workload.Workload, error) {
	in, err := f.Open()
	if err != nil {
		return nil, err
	}
	defer in.Close()
	lines := in.Lines()
	p := &parser{}
	for lines.Next() {
		if err := p.line(strings.TrimSpace(lines.Text()), lines.Number()); err != nil {
			return nil, lines.Errorf("%w", err)
		}
		if err := o.Limit.Check(p.rows); err != nil {
			return nil, lines.Errorf("%w", err)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if p.rows == 0 {
		return nil, lines.Errorf("no line of a call: the file was cut")
	}
	w, err := build(p.stages, o)
	if err != nil {
		return nil, fmt.Errorf("%s%w", f.Name, err)
	}
	w.Head.Source.Notes = append(w.Head.Source.Notes, extent(p.stages)...)
	for _, name := range p.unused {
		w.Head.Source.Notes = append(w.Head.Source.Notes, fmt.Sprintf("the column %q was not used", name))
	}
	w.Head.Source.Kind, w.Head.Source.File = "aicb", filepath.Base(f.Name)
	return w, nil
}

// stage is a part of the file: what the ranks of a pipeline stage do.
type stage struct {
	ranks workload.Ranks // nil: the file does not say
	named bool           // the file names the stage: it has a part for each
	rows  []row
}

// extent says how much of a job the stages show, as far as a file that was cut between two lines looks like a whole
// one.
func extent(stages []stage) (notes []string) {
	if n := len(stages); stages[0].named {
		each := ""
		if n > 1 {
			each = " each"
		}
		notes = append(notes, fmt.Sprintf("the file shows %s of %s%s: it was cut if the job had more",
			units.Count(n, "pipeline stage"),
			units.Count(len(stages[0].ranks), "rank"), each))
	}
	epochs := func(s stage) bool {
		return slices.ContainsFunc(s.rows, func(r row) bool { return r.kind == epochEnd })
	}
	rows := stages[len(stages)-1].rows
	if slices.ContainsFunc(stages, epochs) && (len(rows) == 0 || rows[len(rows)-1].kind != epochEnd) {
		notes = append(notes, "the last line is no epoch_end, with which an epoch ends: the file may be cut")
	}
	return notes
}

// row is a line.
type row struct {
	line       int
	kind       string // such as all_reduce, computation, epoch_end
	group      string // such as tp_group; "" or all for everyone
	size       int    // ranks of the group; 0: the file does not say
	bytes      int64
	name       string // the stage of the job, such as forward.MegatronRowLinear
	dst        int    // the root of a reduce; -1: none
	additional string
	elapsed    float64 // -1: none
}

type parser struct {
	stages  []stage
	columns map[string]int
	rows    int
	ranks   int      // of all stages
	unused  []string // columns that are not known
}

// knownColumns are the columns of AICB's files. What a call took (algbw, busbw) and the rank that sends (src) are not
// used.
var knownColumns = []string{"comm_type", "comm_group", "comm_group_size", "msg_size", "stage", "dst", "src",
	"additional", "_elapsed_time",
	"algbw", "busbw", "count"}

// maxColumns is the maximum number of columns. AICB writes 12.
const maxColumns = 100

// The first line of a part: [rank0 ~ rank127] or [ pp_stage1: [rank16, rank17] ].
var (
	between = regexp.MustCompile(`^\[\s*rank(\d+)\s*~\s*rank(\d+)\s*\]$`)
	listed  = regexp.MustCompile(`^\[\s*pp_stage(\d+):\s*\[([^\]]*)\]\s*\]$`)
)

func (p *parser) line(text string, number int) error {
	switch {
	case text == "":
		return nil
	case text[0] == '[':
		ranks, err := ranksOf(text)
		p.stages = append(p.stages, stage{ranks: ranks, named: listed.MatchString(text)})
		p.columns = nil
		if p.ranks += len(ranks); p.ranks > workload.MaxRanks {
			return fmt.Errorf("%d ranks: at most %d are possible", p.ranks, workload.MaxRanks)
		}
		return err
	case strings.HasPrefix(text, "comm_type,"):
		p.columns = map[string]int{}
		names := strings.Split(text, ",")
		if len(names) > maxColumns {
			return fmt.Errorf("%d columns: at most %d are possible", len(names), maxColumns)
		}
		for i, name := range names {
			if _, twice := p.columns[name]; twice {
				return fmt.Errorf("column %q is there twice", name)
			}
			p.columns[name] = i
			if !slices.Contains(knownColumns, name) && !slices.Contains(p.unused, name) {
				p.unused = append(p.unused, name)
			}
		}
		if len(p.stages) == 0 {
			p.stages = []stage{{}}
		}
		return nil
	case p.columns == nil:
		return errors.New("no line of names of columns, comm_type,comm_group,..., before the first call")
	}
	r, err := p.row(text)
	if err != nil {
		return err
	}
	r.line = number
	s := &p.stages[len(p.stages)-1]
	s.rows = append(s.rows, r)
	p.rows++
	return nil
}

// ranksOf reads the first line of a part.
func ranksOf(text string) (workload.Ranks, error) {
	if m := between.FindStringSubmatch(text); m != nil {
		return workload.ParseRanks(m[1] + "-" + m[2])
	}
	m := listed.FindStringSubmatch(text)
	if m == nil {
		return nil, errors.New("a line like [rank0 ~ rank7] or [ pp_stage0: [rank0, rank1] ] is expected")
	}
	return workload.ParseRanks(strings.NewReplacer("rank", "", " ", "").Replace(m[2]))
}

// row reads the line of a call or computation.
func (p *parser) row(text string) (row, error) {
	parts, err := csv.NewReader(strings.NewReader(text)).Read()
	if err != nil {
		return row{}, err
	}
	if len(parts) != len(p.columns) {
		return row{}, fmt.Errorf("%d columns, and the line of names has %d", len(parts), len(p.columns))
	}
	get := func(name string) string {
		i, ok := p.columns[name]
		if !ok || parts[i] == "None" {
			return ""
		}
		return parts[i]
	}
	r := row{kind: strings.TrimPrefix(get("comm_type"), "CommType."),
		group: strings.TrimPrefix(get("comm_group"), "CommGroup."),
		name:  get("stage"), additional: get("additional"), dst: -1, elapsed: -1}
	if v := get("comm_group_size"); v != "" {
		n, err := input.Number(v)
		if r.size = int(min(n, workload.MaxRanks+1)); err != nil || r.size < 1 || r.size > workload.MaxRanks {
			return r, fmt.Errorf("comm_group_size %q: a number from 1 to %d is expected", v, workload.MaxRanks)
		}
	}
	if v := get("msg_size"); r.kind != computation {
		if r.bytes, err = input.Number(v); err != nil {
			return r, fmt.Errorf("msg_size %q: a number of bytes is expected", v)
		}
	}
	if v := get("dst"); v != "" {
		if r.dst, err = strconv.Atoi(v); err != nil || r.dst < 0 {
			return r, fmt.Errorf("dst %q: a rank is expected", v)
		}
	}
	if v := get("_elapsed_time"); v != "" {
		if r.elapsed, err = strconv.ParseFloat(v, 64); err != nil || !(r.elapsed >= 0 && r.elapsed < 1e15) {
			return r, fmt.Errorf("_elapsed_time %q: a time is expected", v)
		}
	}
	if v := get("count"); v != "" && v != "1" && v != "1.0" {
		return r, fmt.Errorf("count %q: 1 is expected", v)
	}
	return r, nil
}
