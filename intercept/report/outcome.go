// SPDX-License-Identifier: Apache-2.0

package report

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/ddlemu/ddlemu/configs/bounds"
)

// outcomeFile is the file beside the ledgers of a job with what its command printed at its end.
const outcomeFile = "outcome.json"

// WriteOutcome puts the outcome of a job, a document with a verdict, beside its ledgers.
func WriteOutcome(dir string, outcome any) error {
	text, err := json.MarshalIndent(outcome, "", "  ")
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, outcomeFile), append(text, '\n'), 0o600)
	}
	if err != nil {
		return fmt.Errorf("write the job's outcome beside its ledgers: %w", err)
	}
	return nil
}

// Outcomes are the outcomes of the jobs in these folders that have one, with the place of the folder. A job that was
// killed has none.
func Outcomes(dirs []string) ([]Outcome, error) {
	out := []Outcome{}
	for job, dir := range dirs {
		path := filepath.Join(dir, outcomeFile)
		text, err := bounds.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read the outcome of a job: %w", err)
		}
		var has struct {
			Verdict string `json:"verdict"`
		}
		if err := json.Unmarshal(text, &has); err != nil || has.Verdict == "" {
			return nil, fmt.Errorf("%s is not what ddlemu wrote: remove it to have the report without a verdict", path)
		}
		out = append(out, Outcome{Job: job, Result: text})
	}
	return out, nil
}
