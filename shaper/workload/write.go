// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
)

// Writer writes a workload line by line. It does not check what it writes.
type Writer struct {
	out  *bufio.Writer
	json *json.Encoder
}

// NewWriter writes the head. Lines is the number of operations that will follow, by which a reader notices that a file
// is cut; -1 if it is not known.
func NewWriter(out io.Writer, head *Head, lines int) (*Writer, error) {
	w := &Writer{out: bufio.NewWriterSize(out, 1<<16)}
	w.json = json.NewEncoder(w.out)
	w.json.SetEscapeHTML(false)
	line := headLine{Head: *head}
	if lines >= 0 {
		line.Lines = &lines
	}
	if err := w.json.Encode(&line); err != nil {
		return nil, fmt.Errorf("write the head of a workload: %w", err)
	}
	return w, nil
}

// Op writes an operation.
func (w *Writer) Op(o *Op) error {
	if err := w.json.Encode(o); err != nil {
		return fmt.Errorf("write an operation of a workload: %w", err)
	}
	return nil
}

// Flush writes the buffered lines.
func (w *Writer) Flush() error {
	if err := w.out.Flush(); err != nil {
		return fmt.Errorf("write a workload: %w", err)
	}
	return nil
}

// Write writes w. [Read] reads an equal workload.
func (w *Workload) Write(out io.Writer) error {
	wr, err := NewWriter(out, &w.Head, len(w.Ops))
	if err != nil {
		return err
	}
	for i := range w.Ops {
		if err := wr.Op(&w.Ops[i]); err != nil {
			return err
		}
	}
	return wr.Flush()
}
