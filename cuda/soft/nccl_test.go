// SPDX-License-Identifier: Apache-2.0

package soft

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ddlemu/ddlemu/cuda/soft/internal/softbuild"
)

// nccls returns the relinked NCCLs, the default first.
func nccls(t *testing.T, dir string) []softbuild.Package {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, softbuild.SummaryFile))
	if err != nil {
		t.Fatalf("%v; run `make build` first", err)
	}
	var s softbuild.Summary
	if err := json.Unmarshal(data, &s); err != nil {
		t.Fatal(err)
	}
	for _, r := range s.Refused {
		t.Logf("NCCL %s of %s is not used: %s", r.Version, r.Source, r.Reason)
	}
	if len(s.NCCL) == 0 || (len(s.NCCL) < 2 && len(s.Refused) == 0) {
		t.Fatalf("%d NCCLs in %s, want 2; run `make build` again", len(s.NCCL), dir)
	}
	return s.NCCL
}

// rankProgram compiles a program as a user does.
func rankProgram(t *testing.T, dir, name string) string {
	t.Helper()
	return compile(t, name, "-O2", "-Wall", "-Wextra", "-Werror", "testdata/"+name+".cc", "-I"+dir+"/include",
		"-L"+dir+"/lib", "-lnccl", "-lcudart")
}

// job is one run of a test program.
type job struct {
	ranks, nodes int
	mode         string
	settings     []string
}

// run runs the job's ranks. It returns their output and the largest exit status; 99 is a crash. If a rank fails, the
// others are killed, because they would wait for it.
func (j job) run(t *testing.T, program, dir, nccl string) (string, int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	id := filepath.Join(t.TempDir(), "id")
	var out strings.Builder
	var mu sync.Mutex
	var wg sync.WaitGroup
	worst := 0
	for rank := range j.ranks {
		args := append([]string{fmt.Sprint(rank), fmt.Sprint(j.ranks), id}, strings.Fields(j.mode)...)
		cmd := exec.CommandContext(ctx, program, args...)
		cmd.Env = environment(append([]string{
			"LD_LIBRARY_PATH=" + filepath.Join(dir, nccl) + ":" + dir + "/lib",
			"NCCL_SOCKET_IFNAME=lo",
			fmt.Sprintf("NCCL_HOSTID=node%d", rank*j.nodes/j.ranks),
		}, j.settings...)...)
		wg.Go(func() {
			output, err := cmd.CombinedOutput()
			mu.Lock()
			defer mu.Unlock()
			out.Write(output)
			var exit *exec.ExitError
			if err != nil && !errors.As(err, &exit) {
				t.Error(err)
				cancel()
				return
			}
			if err == nil || ctx.Err() != nil && exit.ExitCode() < 0 {
				return
			}
			status := exit.ExitCode()
			if status < 0 {
				fmt.Fprintf(&out, "rank %d: %v\n", rank, err)
				status = 99
			}
			worst = max(worst, status)
			if status > 1 {
				cancel()
			}
		})
	}
	wg.Wait()
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		t.Error("the ranks did not end in time")
	}
	return out.String(), worst
}

func TestNCCL(t *testing.T) {
	dir := built(t)
	program := rankProgram(t, dir, "check")
	jobs := []struct {
		name string
		job  job
	}{
		{"1 rank", job{1, 1, "full", nil}},
		{"2 nodes", job{2, 2, "full", nil}},
		{"2 nodes LL", job{2, 2, "quick", []string{"NCCL_PROTO=LL"}}},
		{"2 nodes LL128", job{2, 2, "quick", []string{"NCCL_PROTO=LL128"}}},
		{"2 nodes Simple", job{2, 2, "quick", []string{"NCCL_PROTO=Simple"}}},
		{"2 nodes Tree", job{2, 2, "allreduce", []string{"NCCL_ALGO=Tree"}}},
		{"4 nodes Ring", job{4, 4, "quick", []string{"NCCL_ALGO=Ring"}}},
		{"4 nodes Tree", job{4, 4, "allreduce", []string{"NCCL_ALGO=Tree"}}},
		{"4 nodes", job{4, 4, "quick", nil}},
		{"2x2 ranks", job{4, 2, "quick", nil}},
		{"2 nodes 12 times", job{2, 2, "cycle", nil}},
		{"abort", job{2, 2, "abort", nil}},
	}
	for _, n := range nccls(t, dir) {
		for _, tt := range jobs {
			t.Run(n.NCCL+"/"+tt.name, func(t *testing.T) {
				out, status := tt.job.run(t, program, dir, n.Dir)
				t.Log("\n" + out)
				if status != 0 {
					t.Errorf("exit status %d", status)
				}
			})
		}
	}
}

// hopper has the settings of a node whose GPUs have multicast and 18 NVLinks to NVSwitches.
func hopper(t *testing.T) []string {
	t.Helper()
	xml := `<system version="1"><cpu numaid="-1" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="143">`
	for gpu := range 8 {
		xml += fmt.Sprintf(`<pci busid="0000:%02x:00.0" class="0x030200" link_speed="32.0 GT/s PCIe" link_width="16">`+
			`<gpu><nvlink target="dde2:01:00.0" count="18" tclass="0x068000"/></gpu></pci>`, 16+gpu)
	}
	file := filepath.Join(t.TempDir(), "topology.xml")
	if err := os.WriteFile(file, []byte(xml+"</cpu></system>"), 0o644); err != nil {
		t.Fatal(err)
	}
	return []string{"DDLEMU_SOFT_CAPABILITY=9.0", "NCCL_TOPO_FILE=" + file, "NCCL_DEBUG=INFO", "NCCL_DEBUG_SUBSYS=TUNING"}
}

// chosen has the algorithm that NCCL logs for a call: its name, or on 2.22 its number.
var chosen = regexp.MustCompile(`-> Algo (\w+) proto`)

// NVLS on one node. All calls must use it: NCCL 2.22 uses a ring, without a word, if NVLS is not possible.
func TestNVLS(t *testing.T) {
	dir := built(t)
	program := rankProgram(t, dir, "check")
	for _, n := range nccls(t, dir) {
		algo, modes := "NCCL_ALGO=NVLS", []string{"nvls"}
		if n.NCCL >= "2.29" {
			// In 2.22 the ranks of a node wait for each other in the call, so none can call alone.
			algo, modes = "NCCL_ALGO=allreduce:nvls;allgather:nvls;reducescatter:nvls", append(modes, "abort")
		}
		for _, mode := range modes {
			t.Run(n.NCCL+"/"+mode, func(t *testing.T) {
				out, status := job{3, 1, mode, append(hopper(t), algo)}.run(t, program, dir, n.Dir)
				calls := chosen.FindAllStringSubmatch(out, -1)
				for _, c := range calls {
					if c[1] != "NVLS" && c[1] != "4" {
						t.Fatalf("NCCL chose algorithm %s", c[1])
					}
				}
				if status != 0 || len(calls) == 0 {
					t.Errorf("exit status %d, %d calls; output:\n%s", status, len(calls), out)
				}
			})
		}
	}
}

// NCCL's other features with NVLS, which the operators with a factor do not have. Registered memory cannot be multicast:
// NCCL copies it.
func TestNVLSFeatures(t *testing.T) {
	dir := built(t)
	program := rankProgram(t, dir, "features")
	for _, n := range nccls(t, dir) {
		t.Run(n.NCCL, func(t *testing.T) {
			settings := append(hopper(t), "NCCL_ALGO=NVLS,Ring")
			out, status := job{ranks: 3, nodes: 1, settings: settings}.run(t, program, dir, n.Dir)
			if status != 0 {
				t.Errorf("exit status %d; output:\n%s", status, out)
			}
		})
	}
}

// NCCL's other features, across nodes and within one.
func TestNCCLFeatures(t *testing.T) {
	dir := built(t)
	program := rankProgram(t, dir, "features")
	for _, n := range nccls(t, dir) {
		for _, nodes := range []int{4, 1} {
			t.Run(fmt.Sprintf("%s/%d nodes", n.NCCL, nodes), func(t *testing.T) {
				out, status := job{ranks: 4, nodes: nodes}.run(t, program, dir, n.Dir)
				if status != 0 {
					t.Errorf("exit status %d; output:\n%s", status, out)
				}
			})
		}
	}
}

// The check must find a corrupted input.
func TestCorruptionIsSeen(t *testing.T) {
	dir := built(t)
	program := rankProgram(t, dir, "check")
	for _, n := range nccls(t, dir) {
		t.Run(n.NCCL, func(t *testing.T) {
			out, status := job{2, 2, "allreduce corrupt", nil}.run(t, program, dir, n.Dir)
			if status != 1 || !strings.Contains(out, "want") {
				t.Errorf("exit status %d, want 1; output:\n%s", status, out)
			}
		})
	}
}
