// SPDX-License-Identifier: Apache-2.0

// Package testslog reads the table that nccl-tests prints, and `ddlemu bench` after
// it, and says of each time whether a fabric can have given it.
package testslog

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Row is one line of the table.
type Row struct {
	Line        int   // of the log, from 1
	Size, Count int64 // bytes and elements
	Type, Op    string
	Root        int // -1 without one
	OutOfPlace  time.Duration
	InPlace     time.Duration // 0 without one
}

// Log is what a log says.
type Log struct {
	Rows  []Row
	Ranks int // 0 if it does not say
}

// maxRows bounds what is read: nobody looks at more, and each costs a simulation.
const maxRows = 10_000

// Read finds the table's rows in a log; all else is passed over. The error names the
// line that looks like a row and is none, or says that there are no rows.
func Read(r io.Reader) (Log, error) {
	var log Log
	columns := newColumns()
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		text := strings.TrimSpace(lines.Text())
		if names, ok := strings.CutPrefix(text, "#"); ok {
			columns.learn(strings.Fields(names))
			log.learn(strings.Fields(names))
			continue
		}
		words := strings.Fields(text)
		if len(words) < columns.least() || !digits(words[0]) || !digits(words[1]) {
			continue
		}
		row, err := columns.row(words)
		if err != nil {
			return Log{}, fmt.Errorf("line %d: %w", n, err)
		}
		row.Line = n
		if log.Rows = append(log.Rows, row); len(log.Rows) > maxRows {
			return Log{}, fmt.Errorf("line %d: more than %d rows", n, maxRows)
		}
	}
	if err := lines.Err(); err != nil {
		return Log{}, fmt.Errorf("read the log: %w", err)
	}
	if len(log.Rows) == 0 {
		return Log{}, fmt.Errorf("the log has no rows of nccl-tests' table (size, count, type, ...)")
	}
	return log, nil
}

// learn takes the number of ranks from a line of the head: nccl-tests has one for
// each, "Rank 0 Group 0 Pid ...", ddlemu bench "... ranks 2 nodes 2".
func (l *Log) learn(words []string) {
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

// columns says where things are: there was no column for the root once.
type columns struct {
	root bool
}

func newColumns() *columns { return &columns{root: true} }

// learn takes the names of the columns from the table's head.
func (c *columns) learn(names []string) {
	if len(names) > 4 && names[0] == "size" && names[1] == "count" {
		c.root = slices.Contains(names, "root")
	}
}

// first is the index of the first time.
func (c *columns) first() int {
	if c.root {
		return 5
	}
	return 4
}

// least is how many words a row has at least: a time, two bandwidths and a check.
func (c *columns) least() int { return c.first() + 4 }

func (c *columns) row(words []string) (Row, error) {
	r := Row{Root: -1, Type: words[2], Op: words[3]}
	var err error
	if r.Size, err = strconv.ParseInt(words[0], 10, 62); err != nil {
		return r, fmt.Errorf("size %s: not a number of bytes", words[0])
	}
	if r.Count, err = strconv.ParseInt(words[1], 10, 62); err != nil {
		return r, fmt.Errorf("count %s: not a number of elements", words[1])
	}
	if c.root {
		if r.Root, err = strconv.Atoi(words[4]); err != nil {
			return r, fmt.Errorf("root %s: not a rank", words[4])
		}
	}
	at := c.first()
	if r.OutOfPlace, err = microseconds(words[at]); err != nil {
		return r, err
	}
	if len(words) > at+4 && words[at+4] != "N/A" {
		r.InPlace, err = microseconds(words[at+4])
	}
	return r, err
}

func microseconds(text string) (time.Duration, error) {
	us, err := strconv.ParseFloat(text, 64)
	if err != nil || us < 0 || us > 1e12 {
		return 0, fmt.Errorf("time %s: not a number of microseconds", text)
	}
	return time.Duration(us * 1e3), nil
}
