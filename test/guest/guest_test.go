// SPDX-License-Identifier: Apache-2.0

package guest

import (
	"context"
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ddlemu/ddlemu/cuda/locate"
	"github.com/ddlemu/ddlemu/test/built"
	"github.com/ddlemu/ddlemu/test/needs"
	"github.com/ddlemu/ddlemu/test/world"
)

// limit is the longest time of a job, which usually takes a few seconds.
const limit = 2 * time.Minute

// library is the path of the NCCL for guests of a release line.
func library(t *testing.T, nccl string) string {
	t.Helper()
	path, err := locate.Layout{SoftCUDA: built.Path(t, "softcuda")}.Guest(nccl)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// ddlemu runs a command with a folder of fabrics of its own, which must be empty at the end, and without
// LD_LIBRARY_PATH.
func ddlemu(t *testing.T, env []string, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	cmd := world.Command(ctx, t, world.Folder(t), append(env, "PYTHONDONTWRITEBYTECODE=1"), args...)
	cmd.Env = slices.DeleteFunc(cmd.Env, func(v string) bool { return strings.HasPrefix(v, "LD_LIBRARY_PATH=") })
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// job is a run of guest.py on two nodes.
type job struct {
	nccl, clock, what string
	flags, env        []string
	noLibraryPath     bool // the ranks find the plugin by its path alone
}

// run runs the job. All that print "ok" must; on a virtual clock the verdict must be VALID unless a rank dies.
func (j job) run(t *testing.T) {
	t.Helper()
	script, err := filepath.Abs("testdata/guest.py")
	if err != nil {
		t.Fatal(err)
	}
	args := append([]string{"run", "--profile", "eth10", "--nodes", "2", "--clock", j.clock}, j.flags...)
	args = append(args, "--")
	if j.noLibraryPath {
		args = append(args, "env", "-u", "LD_LIBRARY_PATH", "NCCL_NET_PLUGIN="+built.Path(t, "lib", "libgoemu.so"))
	}
	args = append(args, needs.Program(t, "python3"), script, j.what)
	out, err := ddlemu(t, append([]string{"GUEST=" + library(t, j.nccl)}, j.env...), args...)
	ranks := 2
	if j.what == "killed" {
		ranks = 1
	}
	if err != nil || strings.Count(out, "ok\n") != ranks || !strings.Contains(out, "node0:node1") {
		t.Fatalf("%v:\n%s", err, out)
	}
	if j.clock == "virtual" && j.what != "killed" && !strings.Contains(out, "verdict: VALID") {
		t.Errorf("the verdict is not VALID:\n%s", out)
	}
}

// each runs a job with both NCCLs and on both clocks.
func each(t *testing.T, j job) {
	t.Helper()
	for _, nccl := range locate.SoftVersions {
		for _, clock := range []string{"virtual", "real"} {
			t.Run(nccl+" "+clock, func(t *testing.T) {
				j := j
				j.nccl, j.clock = nccl, clock
				j.run(t)
			})
		}
	}
}

func TestValues(t *testing.T) { each(t, job{what: "values"}) }

func TestOneRank(t *testing.T) { each(t, job{what: "alone"}) }

// A wait with a limit ends in real time on either clock, and does not keep a virtual clock from moving.
func TestWaitWithLimit(t *testing.T) { each(t, job{what: "late"}) }

func TestKilledRank(t *testing.T) { each(t, job{what: "killed"}) }

// The plugin, its tuner and its profiler need no LD_LIBRARY_PATH, and neither does NVML.
func TestPluginByPath(t *testing.T) { each(t, job{what: "values", noLibraryPath: true}) }

// NCCL's checks of pointers take memory that CUDA does not know.
func TestPointerChecks(t *testing.T) {
	for nccl, env := range map[string]string{"2.22": "NCCL_CHECK_POINTERS=1", "2.29": "NCCL_CHECK_MODE=DEBUG_LOCAL"} {
		t.Run(nccl, func(t *testing.T) {
			job{nccl: nccl, clock: "virtual", what: "values", env: []string{env}}.run(t)
		})
	}
}

// Every message is known to the ledgers, and what it is for.
func TestTrace(t *testing.T) {
	for _, nccl := range locate.SoftVersions {
		t.Run(nccl, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "t")
			job{nccl: nccl, clock: "virtual", what: "values", flags: []string{"--trace", dir}}.run(t)
			out, err := ddlemu(t, nil, "messages", dir, "--json")
			if err != nil {
				t.Fatalf("%v:\n%s", err, out)
			}
			var got struct {
				Notes    []string
				Messages []struct{ Function string }
			}
			if err := json.Unmarshal([]byte(out), &got); err != nil {
				t.Fatal(err)
			}
			for i, m := range got.Messages {
				if m.Function != "AllReduce" {
					t.Fatalf("message %d of %d is of %q", i, len(got.Messages), m.Function)
				}
			}
			if len(got.Messages) < 20 || len(got.Notes) > 0 {
				t.Errorf("%d messages, notes %q", len(got.Messages), got.Notes)
			}
		})
	}
}
