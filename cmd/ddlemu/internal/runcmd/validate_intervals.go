// SPDX-License-Identifier: Apache-2.0

package runcmd

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"

	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/cli"
	"github.com/ddlemu/ddlemu/shaper/report/score"
)

// writeIntervals writes the intervals of the tables of a board, one a line.
func writeIntervals(path string, b *score.Board) error {
	all := score.Intervals(b)
	if len(all) == 0 {
		return cli.BadInput("--intervals: %d tables are too few for an interval", len(b.Tables))
	}
	var out bytes.Buffer
	for i, interval := range all {
		line, err := json.Marshal(interval)
		if err != nil {
			return fmt.Errorf("write the intervals: %w", err)
		}
		out.WriteString(map[bool]string{true: "[\n", false: ",\n"}[i == 0])
		out.Write(line)
	}
	out.WriteString("\n]\n")
	if err := os.WriteFile(path, out.Bytes(), 0o644); err != nil {
		return fmt.Errorf("write the intervals: %w", err)
	}
	return nil
}
