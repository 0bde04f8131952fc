// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/ddlemu/ddlemu/shaper/bench/nccllog"
)

// logFile follows one rank's NCCL log while it is written. NCCL does not buffer it beyond a line, so that after an
// answer of the rank everything before is there.
type logFile struct {
	path   string // empty: NCCL logs elsewhere
	offset int64
	nccllog.Parser
}

// poll reads what is new.
func (l *logFile) poll() error {
	if l.path == "" {
		return nil
	}
	f, err := os.Open(l.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // NCCL makes it with its first message
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

// mostFrequent returns the decision that was made most often, nil if none was: with one size at a time NCCL makes the same
// decision for every iteration.
func mostFrequent(decisions []nccllog.Decision) *nccllog.Decision {
	var best *nccllog.Decision
	for i := range decisions {
		if best == nil || decisions[i].Count > best.Count {
			best = &decisions[i]
		}
	}
	return best
}
