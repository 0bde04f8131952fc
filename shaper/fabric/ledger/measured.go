// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/ddlemu/ddlemu/configs/bounds"
)

// measuredName is the file in a folder of ledgers that says from when on the job is measured.
const measuredName = "measured-from"

// WriteMeasured notes that what the job did before a time, in ns of the fabric's clock, was a warm-up: calls in which
// NCCL makes its connections, and that are no part of the measurement.
func WriteMeasured(dir string, from int64) error {
	if err := os.WriteFile(filepath.Join(dir, measuredName), fmt.Appendln(nil, from), 0o600); err != nil {
		return fmt.Errorf("note the end of the warm-up: %w", err)
	}
	return nil
}

// ReadMeasured returns that time; 0 if there was no warm-up.
func ReadMeasured(dir string) (from int64, err error) {
	text, err := bounds.ReadFile(filepath.Join(dir, measuredName))
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	if err == nil {
		from, err = strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	}
	if err != nil {
		return 0, fmt.Errorf("read the end of the warm-up: %w", err)
	}
	return from, nil
}
