// SPDX-License-Identifier: Apache-2.0

// Package testslog reads the tables that nccl-tests and `ddlemu bench` print, and judges whether a fabric can have
// given each of their times.
package testslog

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/ddlemu/ddlemu/shaper/nccl"
)

// Row is one line of a table.
type Row struct {
	Line        int   // of the log, from 1; of JSON, the number of the result
	Size, Count int64 // bytes and elements
	Type        string
	Op          string // "" if the table has none
	Root        int    // -1 if there is none
	OutOfPlace  Half
	InPlace     *Half // nil if there is none
}

// Half is the out-of-place or in-place half of a row.
type Half struct {
	Time         time.Duration // mean over the ranks
	AlgBW, BusBW float64       // GB/s
	Wrong        int64         // elements; -1 if not checked, SomeWrong if the log does not say how many
}

// SomeWrong is the number of wrong elements if the log only says that there are some.
const SomeWrong = -2

// RedOp is the row's operator as NCCL decides on it: Sum if nothing is reduced, as in [bench.Config.Cases].
func (r *Row) RedOp() (nccl.RedOp, error) {
	switch r.Op {
	case "", "none":
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

// Line is a line that is no whole row.
type Line struct {
	Number int    `json:"line"` // in the log, from 1
	What   string `json:"what"`
}

// Test is the table of one run of a program.
type Test struct {
	Name  string // of the collective, such as all_gather; "" if the log does not say
	Line  int    // with which it begins
	Rows  []Row
	Cut   []Line // rows whose end is missing
	Odd   []Line // that begin like rows and are none
	Ranks int    // 0 if not known
	Iters int    // timed iterations; 0 if not known
	Nodes int    // hosts of the ranks; 0 if the log does not list all ranks
	// Cycles is how many times the sizes were gone through (-N), if more than once. The times of Rows are medians of them.
	Cycles int
	// Programs is how many heads came before the first row. If it is more than one, the programs know nothing of each
	// other: each has its own table.
	Programs int
	// Assumed says that no line names the columns: the columns of nccl-tests since 2022 were taken.
	Assumed bool
	// OutOfBounds is how many values nccl-tests found wrong in all, which before 2022 no row says.
	OutOfBounds int64
	// CPUTime says that the times are of the host's threads, not of the calls (-C).
	CPUTime bool
	System  System
}

// System is what a log says of the machines and of how nccl-tests was started there.
type System struct {
	// GPU is the product as CUDA names it; several are joined by commas; "" if the log does not list all ranks.
	GPU string
	// Threads is how many threads a process has (-t), and GPUsPerThread how many GPUs, that is ranks, a thread (-g); 0
	// if not known.
	Threads, GPUsPerThread int
	NCCL                   string // version of the library, such as 2.29.7; "" if not known
	Net                    Net
	// Settings are variables of NCCL as NAME=value, by NCCL's messages and other lines before the table.
	Settings []string
}

// Log is the content of a log.
type Log struct {
	Tests []Test // at least one row each
	// Foreign is the number of lines that are neither of nccl-tests nor of NCCL, and First the first of them.
	Foreign int
	First   Line
	JSON    bool
}

// maxRows is the maximum number of rows, because each costs a simulation.
const maxRows = 10_000

// maxLine is the maximum length of a line in bytes. What is longer is no row.
const maxLine = 64 << 10

// Read reads the tables of a log, whatever launchers have put before the lines and NCCL's messages between them, or the
// file that nccl-tests writes with -J. The error says that there are no rows, and why.
func Read(r io.Reader) (Log, error) {
	in := bufio.NewReaderSize(r, maxLine)
	if bom, _ := in.Peek(3); string(bom) == "\ufeff" {
		_, _ = in.Discard(3) // in the buffer
	}
	if isJSON(in) {
		return readJSON(in)
	}
	var p parser
	for n := 1; ; n++ {
		line, err := in.ReadSlice('\n')
		if len(line) > 0 && !errors.Is(err, bufio.ErrBufferFull) {
			p.line(n, string(bytes.TrimRight(line, "\r\n")))
		}
		for errors.Is(err, bufio.ErrBufferFull) {
			if _, err = in.ReadSlice('\n'); !errors.Is(err, bufio.ErrBufferFull) {
				p.foreign(n, "a line of more than 64 KiB")
			}
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return Log{}, fmt.Errorf("read the log: %w", err)
		}
		if err != nil || p.rows > maxRows {
			return p.end()
		}
	}
}
