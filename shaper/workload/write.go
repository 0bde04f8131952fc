// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
)

// Write writes w, which it does not check. [Read] reads an equal workload. The head has the number of operations, by
// which a reader notices that a file is cut.
func (w *Workload) Write(out io.Writer) error {
	buffer := bufio.NewWriterSize(out, 1<<16)
	lines := json.NewEncoder(buffer)
	lines.SetEscapeHTML(false)
	count := len(w.Ops)
	if err := lines.Encode(&headLine{Head: w.Head, Lines: &count}); err != nil {
		return fmt.Errorf("write the head of a workload: %w", err)
	}
	for i := range w.Ops {
		if err := lines.Encode(&w.Ops[i]); err != nil {
			return fmt.Errorf("write an operation of a workload: %w", err)
		}
	}
	if err := buffer.Flush(); err != nil {
		return fmt.Errorf("write a workload: %w", err)
	}
	return nil
}
