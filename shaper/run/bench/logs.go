// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/ddlemu/ddlemu/shaper/nccl/nccllog"
)

// logFile follows one rank's NCCL log while NCCL writes it. NCCL flushes each line, so when the rank answers, all lines
// before its answer are in the file.
type logFile struct {
	path   string // empty if NCCL does not log to a file of ours
	offset int64
	// unnamed has what was logged while several communicators were in use at once; nil if that was never.
	unnamed *nccllog.Comm
	nccllog.Parser
}

// poll reads the new part of the file.
func (l *logFile) poll() error {
	if l.path == "" {
		return nil
	}
	f, err := os.Open(l.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // NCCL creates it with its first message
	}
	if err != nil {
		return fmt.Errorf("read the NCCL log: %w", err)
	}
	defer f.Close()
	if _, err := f.Seek(l.offset, io.SeekStart); err != nil {
		return fmt.Errorf("read the NCCL log: %w", err)
	}
	n, err := io.Copy(&l.Parser, f)
	l.offset += n
	if err != nil {
		return fmt.Errorf("read the NCCL log: %w", err)
	}
	return nil
}

// mostFrequent returns the most frequent decision, nil for none. With one size at a time, NCCL decides the same for
// every iteration.
func mostFrequent(decisions []nccllog.Decision) *nccllog.Decision {
	var best *nccllog.Decision
	for i := range decisions {
		if best == nil || decisions[i].Count > best.Count {
			best = &decisions[i]
		}
	}
	return best
}
