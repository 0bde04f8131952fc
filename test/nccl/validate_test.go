// SPDX-License-Identifier: Apache-2.0

package nccl

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os/exec"
	"testing"
)

type validation struct {
	Rows []struct {
		Size        int64
		PublishedUS float64 `json:"published_us"`
		ExpectedUS  float64 `json:"expected_us"`
		EmulatedUS  float64 `json:"emulated_us"`
		Within      bool    `json:"within_limit"`
	}
	Verdict  string
	Reasons  []string
	Findings []finding
}

// validate runs some rows of the T4 table and returns the command's exit status.
func validate(t *testing.T, args ...string) (v validation, status int, err error) {
	t.Helper()
	cmd := ddlemu(t.Context(), t, folder(t), nil,
		append([]string{"validate", "../../configs/tables/t4_1gpu_2node_efa.csv", "--profile", "t4-efa", "--json"},
			args...)...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		status, err = exit.ExitCode(), nil
	}
	if err == nil {
		err = json.Unmarshal(out, &v)
	}
	if err != nil {
		err = fmt.Errorf("%w:\n%s%s", err, out, stderr.String())
	}
	return v, status, err
}

// Emulated rows take the model's time, and that is the published one: short calls, in which the cost of an operation on
// this host must not matter, and the shortest with more than one loop of the ring, in which the order of the channels'
// messages matters. On the real clock they take no less.
func TestValidate(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		from, to, scale string // the time scale of the real clock
		rows            int
	}{{"128K", "512K", "1024", 3}, {"16M", "16M", "128", 1}} {
		t.Run(tc.from, func(t *testing.T) {
			v, status, err := validate(t, "-b", tc.from, "-e", tc.to)
			if err != nil || len(v.Rows) != tc.rows || v.Verdict != "VALID" || status != 0 {
				t.Fatalf("%v, status %d, %+v", err, status, v)
			}
			for _, r := range v.Rows {
				if math.Abs(r.EmulatedUS/r.ExpectedUS-1) > 5e-5 || !r.Within {
					t.Errorf("%+v", r)
				}
			}
			if v, _, err = validate(t, "-b", tc.from, "-e", tc.to, "--time-scale", tc.scale); err != nil ||
				len(v.Rows) != tc.rows {
				t.Fatalf("%v, %+v", err, v)
			}
			onlyTheHost(t, v.Verdict, v.Findings)
			for _, r := range v.Rows {
				if r.EmulatedUS < shortest*r.ExpectedUS {
					t.Errorf("on the real clock: %+v", r)
				}
			}
		})
	}
}

// On another fabric than that of the table, the rows exceed their limits.
func TestValidateAnotherFabric(t *testing.T) {
	t.Parallel()
	v, status, err := validate(t, "-b", "1M", "--model", "--bw", "20Gbps")
	if err != nil {
		t.Fatal(err)
	}
	if status != 1 || v.Verdict != "" || len(v.Rows) != 11 {
		t.Fatalf("status %d, %+v", status, v)
	}
	for _, r := range v.Rows {
		if r.Size >= 16<<20 && r.Within {
			t.Errorf("%+v", r)
		}
	}
}
