// SPDX-License-Identifier: Apache-2.0

package goal

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/ddlemu/ddlemu/shaper/workload"
)

// Task is a task of a rank.
type Task struct {
	Kind   workload.Kind // Calc, Send or Recv
	Amount int64         // ns of Calc, bytes of the others
	CPU    int           // of Calc
	Peer   int           // of Send and Recv
	Tag    int           // the same
	// Requires are the tasks of the rank that must have ended before it starts, Starts those that must have started.
	// The tasks of a rank are numbered from 0 in their order, and name earlier ones.
	Requires, Starts []int
}

// Tasks writes a file, one task after the other.
type Tasks struct {
	out    *bufio.Writer
	number int // of the next task of the rank
	line   []byte
}

// maxCPU is the largest number of a CPU in LogGOPSim's files.
const maxCPU = 255

// NewTasks begins a file of so many ranks.
func NewTasks(out io.Writer, ranks int) *Tasks {
	t := &Tasks{out: bufio.NewWriterSize(out, 1<<16)}
	fmt.Fprintf(t.out, "num_ranks %d\n", ranks)
	return t
}

// Rank writes the tasks of a rank: those that write adds. Each rank must come once.
func (t *Tasks) Rank(rank int, write func() error) error {
	t.number = 0
	fmt.Fprintf(t.out, "\nrank %d {\n", rank)
	if err := write(); err != nil {
		return err
	}
	_, err := t.out.WriteString("}\n")
	return err
}

// Flush ends the file.
func (t *Tasks) Flush() error { return t.out.Flush() }

// Add writes a task, and returns its number. Messages use CPU 0 and NIC 0.
func (t *Tasks) Add(task *Task) (int, error) {
	if task.CPU > maxCPU {
		return 0, fmt.Errorf("computations on more than %d streams: GOAL's simulators have %d CPUs per rank", maxCPU,
			maxCPU+1)
	}
	number := t.number
	t.number++
	b := append(appendLabel(t.line[:0], number), ": "...)
	b = append(b, task.Kind...)
	b = strconv.AppendInt(append(b, ' '), task.Amount, 10)
	switch task.Kind {
	case workload.Calc:
		b = strconv.AppendInt(append(b, " cpu "...), int64(task.CPU), 10)
	case workload.Send, workload.Recv:
		word := "b to "
		if task.Kind == workload.Recv {
			word = "b from "
		}
		b = strconv.AppendInt(append(b, word...), int64(task.Peer), 10)
		b = strconv.AppendInt(append(b, " tag "...), int64(task.Tag), 10)
		b = append(b, " cpu 0 nic 0"...)
	}
	b = append(b, '\n')
	for i, lists := range [][]int{task.Requires, task.Starts} {
		for k, r := range lists {
			if slices.Contains(lists[:k], r) {
				continue
			}
			b = append(appendLabel(b, number), []string{" requires ", " irequires "}[i]...)
			b = append(appendLabel(b, r), '\n')
		}
	}
	t.line = b
	_, err := t.out.Write(b)
	return number, err
}

// appendLabel appends the label of a task: l1 is the first.
func appendLabel(b []byte, number int) []byte {
	return strconv.AppendInt(append(b, 'l'), int64(number)+1, 10)
}
