// SPDX-License-Identifier: Apache-2.0

// Package testslog reads the table that nccl-tests and `ddlemu bench` print, and judges whether a fabric can have given
// each of its times.
package testslog

import (
	"bufio"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ddlemu/ddlemu/shaper/nccl"
)

// Row is one line of the table.
type Row struct {
	Line        int   // of the log, from 1
	Size, Count int64 // bytes and elements
	Type, Op    string
	Root        int // -1 if there is none
	OutOfPlace  Half
	InPlace     *Half // nil if there is none
}

// Half is the out-of-place or in-place half of a row.
type Half struct {
	Time         time.Duration // mean over the ranks
	AlgBW, BusBW float64       // GB/s
	Wrong        int64         // elements; -1 if not checked
}

// RedOp is the row's operator as NCCL decides on it: Sum if nothing is reduced, as in [bench.Config.Cases].
func (r *Row) RedOp() (nccl.RedOp, error) {
	switch r.Op {
	case "none":
		return nccl.Sum, nil
	case "mulsum": // for NCCL the same as avg, with another factor
		return nccl.Avg, nil
	}
	ops, err := nccl.ParseRedOps(r.Op)
	if err != nil {
		return 0, err
	}
	if len(ops) != 1 {
		return 0, fmt.Errorf("redop %s: not one operator", r.Op)
	}
	return ops[0], nil
}

// CutRow is a row whose end is missing.
type CutRow struct {
	Line int    `json:"line"` // of the log, from 1
	What string `json:"what"`
}

// Log is the content of a log.
type Log struct {
	Rows  []Row
	Cut   []CutRow
	Ranks int // 0 if not known
	Iters int // timed iterations; 0 if not known
}

// maxRows is the maximum number of rows, because each costs a simulation.
const maxRows = 10_000

// launcher matches what launchers put before each line: mpirun --tag-output "[1,0]<stdout>:", mpiexec -l "[0] ", srun
// --label "0: ".
var launcher = regexp.MustCompile(`^(?:\[[^\]\s]*\d+,\d+\]<std(?:out|err)>:|\[\d+\]\s|\s*\d+:\s)`)

// Read reads the rows of the table in a log and ignores other lines. Rows whose end is missing are in Cut. The error
// names the line that begins like a row and is malformed, or says that there are no rows.
func Read(r io.Reader) (Log, error) {
	var log Log
	columns := newColumns()
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		text := strings.TrimSpace(launcher.ReplaceAllString(lines.Text(), ""))
		if names, ok := strings.CutPrefix(text, "#"); ok {
			columns.learn(strings.Fields(names))
			log.learn(strings.Fields(names))
			continue
		}
		words := strings.Fields(text)
		if !columns.isRow(words) {
			continue
		}
		if err := log.add(n, words, columns); err != nil {
			return Log{}, fmt.Errorf("line %d: %w", n, err)
		}
	}
	if err := lines.Err(); err != nil {
		return Log{}, fmt.Errorf("read the log: %w", err)
	}
	if len(log.Rows) == 0 {
		return Log{}, fmt.Errorf("the log has no whole row of nccl-tests' table (size, count, type, ...)")
	}
	return log, nil
}

// isRow says whether a line begins like a row: with size, count and, if the line is too short for a row, a known type.
func (c *columns) isRow(words []string) bool {
	if len(words) < 3 || !digits(words[0]) || !digits(words[1]) {
		return false
	}
	if len(words) >= c.first()+halfColumns {
		return true
	}
	types, err := nccl.ParseDataTypes(words[2])
	return err == nil && len(types) == 1
}

// add adds the row of line n, or says which of it is missing.
func (l *Log) add(n int, words []string, columns *columns) error {
	if len(l.Rows)+len(l.Cut) == maxRows {
		return fmt.Errorf("more than %d rows", maxRows)
	}
	if len(words) < columns.first()+halfColumns {
		l.Cut = append(l.Cut, CutRow{n, "the row is cut before its out-of-place half ends"})
		return nil
	}
	row, whole, err := columns.row(words)
	if err != nil {
		return err
	}
	if !whole {
		l.Cut = append(l.Cut, CutRow{n, "the row is cut before its in-place half ends"})
	}
	row.Line = n
	l.Rows = append(l.Rows, row)
	return nil
}

// learn reads the number of ranks and of iterations from a line of the head. nccl-tests has a line for each rank, "Rank
// 0 Group 0 Pid ...", ddlemu bench "... ranks 2 nodes 2". Both have "... warmup iters: 5 iters: 20 ...".
func (l *Log) learn(words []string) {
	for i := 1; i+1 < len(words); i++ {
		if words[i] == "iters:" && words[i-1] != "warmup" && digits(words[i+1]) {
			l.Iters, _ = strconv.Atoi(words[i+1]) // 0 if the number is too large
			break
		}
	}
	if len(words) > 2 && words[0] == "Rank" && digits(words[1]) {
		if rank, err := strconv.Atoi(words[1]); err == nil {
			l.Ranks = max(l.Ranks, rank+1)
		}
		return
	}
	if i := slices.Index(words, "ranks"); i >= 0 && slices.Contains(words, "datapath") && len(words) > i+1 {
		if ranks, err := strconv.Atoi(words[i+1]); err == nil {
			l.Ranks = max(ranks, 0)
		}
	}
}

func digits(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}

// halfColumns are the columns of a half: time, algbw, busbw and #wrong.
const halfColumns = 4

// columns are the columns of the table. Old versions had no column for the root, and the last column of a half was the
// largest error, not the number of wrong elements.
type columns struct {
	root, wrong bool
}

func newColumns() *columns { return &columns{root: true, wrong: true} }

// learn reads the names of the columns from the table's head.
func (c *columns) learn(names []string) {
	if len(names) > 4 && names[0] == "size" && names[1] == "count" {
		c.root = slices.Contains(names, "root")
		c.wrong = !slices.Contains(names, "error")
	}
}

// first is the index of the first time.
func (c *columns) first() int {
	if c.root {
		return 5
	}
	return 4
}

// row reads a row with at least an out-of-place half. whole says whether nothing is missing.
func (c *columns) row(words []string) (r Row, whole bool, err error) {
	r = Row{Root: -1, Type: words[2], Op: words[3]}
	if r.Size, err = strconv.ParseInt(words[0], 10, 62); err != nil {
		return r, false, fmt.Errorf("size %s: not a number of bytes", words[0])
	}
	if r.Count, err = strconv.ParseInt(words[1], 10, 62); err != nil {
		return r, false, fmt.Errorf("count %s: not a number of elements", words[1])
	}
	if c.root {
		if r.Root, err = strconv.Atoi(words[4]); err != nil {
			return r, false, fmt.Errorf("root %s: not a rank", words[4])
		}
	}
	at := c.first()
	if r.OutOfPlace, err = c.half(words[at:]); err != nil {
		return r, false, err
	}
	rest := words[at+halfColumns:]
	if len(rest) < halfColumns {
		return r, len(rest) > 0 && rest[0] == "N/A", nil
	}
	if rest[0] == "N/A" {
		return r, true, nil
	}
	inPlace, err := c.half(rest)
	r.InPlace = &inPlace
	return r, true, err
}

// half reads time, algbw, busbw and #wrong.
func (c *columns) half(words []string) (h Half, err error) {
	if h.Time, err = microseconds(words[0]); err != nil {
		return h, err
	}
	for i, to := range []*float64{&h.AlgBW, &h.BusBW} {
		if *to, err = strconv.ParseFloat(words[1+i], 64); err != nil || !(*to >= 0 && *to < 1e12) {
			return h, fmt.Errorf("bandwidth %s: not a number of GB/s", words[1+i])
		}
	}
	h.Wrong = -1
	if wrong, err := strconv.ParseFloat(words[3], 64); c.wrong && err == nil && wrong >= 0 && wrong < 1<<62 {
		h.Wrong = int64(wrong)
	} else if c.wrong && err != nil && words[3] != "N/A" {
		return h, fmt.Errorf("#wrong %s: not a number of elements", words[3])
	}
	return h, nil
}

func microseconds(text string) (time.Duration, error) {
	us, err := strconv.ParseFloat(text, 64)
	if err != nil || !(us >= 0 && us <= 1e12) {
		return 0, fmt.Errorf("time %s: not a number of microseconds", text)
	}
	return time.Duration(us * 1e3), nil
}
