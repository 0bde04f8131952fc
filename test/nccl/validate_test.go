// SPDX-License-Identifier: Apache-2.0

package nccl

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
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
			if v, _, err = validate(t, "-b", tc.from, "-e", tc.to, "--set", "time_scale="+tc.scale); err != nil ||
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

// Many tables: NCCL decides on each as its head says, the model says the times, and the sums are of all rows.
func TestValidateAll(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"links.csv": "# collective: all_reduce\n# ranks: 2\n# fabric: eth1\n# nccl: 2.27.3\nbytes,time_us\n8,1\n",
		"half.csv": "# collective: all_gather\n# ranks: 4\n# nodes: 2\n# fabric: eth10\n# gpu: t4\n# type: half\n" +
			"# launch: threads\nbytes,time_us\n64,1\n1048576,1000\n",
		"one.csv": "# collective: all_reduce\n# ranks: 2\n# fabric: two ropes\nbytes,time_us\n8,1\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	picture := filepath.Join(t.TempDir(), "all.svg")
	cmd := ddlemu(t.Context(), t, folder(t), nil, "validate", "--all", "--model", dir, "--svg", picture, "--json")
	out, err := cmd.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != 1 {
		t.Fatalf("%v: %s", err, out)
	}
	var board struct {
		Tables []struct {
			Table     string
			NCCL      string
			OtherNCCL string `json:"other_nccl"`
			GPU       string
			Processes int `json:"ranks_per_process"`
			Rows      []struct {
				ExpectedUS float64 `json:"expected_us"`
			}
		}
		LeftOut []struct{ Table, Reason string } `json:"left_out"`
		All     struct {
			All, Small struct{ Rows int }
		}
	}
	if err := json.Unmarshal(out, &board); err != nil {
		t.Fatal(err)
	}
	if board.All.All.Rows != 3 || board.All.Small.Rows != 2 || len(board.LeftOut) != 1 || board.LeftOut[0].Table != "one.csv" {
		t.Errorf("%+v", board)
	}
	if len(board.Tables) != 2 || board.Tables[0].Table != "half.csv" || board.Tables[1].Table != "links.csv" {
		t.Fatalf("%+v", board.Tables)
	}
	half, links := board.Tables[0], board.Tables[1]
	if !strings.HasPrefix(half.NCCL, "2.22") || half.GPU != "t4" || half.Processes != 2 || half.OtherNCCL != "" {
		t.Errorf("%+v", half)
	}
	if !strings.HasPrefix(links.NCCL, "2.29") || links.OtherNCCL != "NCCL "+links.NCCL+" stands for 2.27.3" {
		t.Errorf("%+v", links)
	}
	// eth10 carries 1.25 GB/s at most, and half of 1 MiB crosses between the nodes.
	if got := half.Rows[1].ExpectedUS; got < 512*1.024/1.25 || got > 2000 {
		t.Errorf("all_gather of 1 MiB takes %v us", got)
	}
	if text, err := os.ReadFile(picture); err != nil || !strings.Contains(string(text), ">t4<") {
		t.Errorf("the picture: %v: %.100s", err, text)
	}
}
