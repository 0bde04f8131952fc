// SPDX-License-Identifier: Apache-2.0

package nccl

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ddlemu/ddlemu/cuda/bench/nccllog"
)

// decided is what NCCL chose for AllReduce of the sizes from begin to end, each 8 times
// the last, on 2 nodes, as "size algorithm protocol".
func decided(t *testing.T, env []string, begin, end string, args ...string) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	e := expectIn(ctx, t, env, append([]string{"--ranks", "2", "-b", begin, "-e", end, "-f", "8"}, args...)...)
	var all []string
	for _, r := range e.Rows {
		all = append(all, fmt.Sprintf("%d %s %s", r.Size, r.Algo, r.Proto))
	}
	return all
}

func has(choices []string, protocol string) bool {
	return strings.Contains(strings.Join(choices, "\n")+"\n", " "+protocol+"\n")
}

// NCCL's model gives LL up to where its bytes, twice as many, cost more than the
// latency that it saves: further up on a faster link, and LL128 after it where the NIC
// reaches the GPU's memory.
func TestNCCLDecidesAsOnTheFabric(t *testing.T) {
	for _, version := range []string{"2.22", "2.29"} {
		t.Run(version, func(t *testing.T) {
			// What a process inherits from one with the plugin names no file of its own.
			inherited := []string{"NCCL_TOPO_FILE=/proc/self/fd/99"}
			slow := decided(t, inherited, "32K", "2M", "--profile", "ndr400", "--bw", "10Gbps", "--nccl", version)
			fast := decided(t, nil, "32K", "2M", "--profile", "ndr400", "--nccl", version)
			t.Logf("10 Gb/s: %q; 400 Gb/s: %q", slow, fast)
			if want := "32768 Ring LL128"; slow[0] != want {
				t.Errorf("at 10 Gb/s: %s, want %s", slow[0], want)
			}
			if want := "32768 Ring LL"; fast[0] != want {
				t.Errorf("at 400 Gb/s: %s, want %s", fast[0], want)
			}
			if want := "2097152 Ring Simple"; slow[2] != want {
				t.Errorf("at 10 Gb/s: %s, want %s", slow[2], want)
			}
			if want := "2097152 Ring LL128"; fast[2] != want {
				t.Errorf("at 400 Gb/s: %s, want %s", fast[2], want)
			}
		})
	}
}

// By the host's view, and on tcp, nothing reaches the GPUs' memory, and NCCL rules
// LL128 out.
func TestNCCLDecidesAsOnTheHost(t *testing.T) {
	for name, args := range map[string][]string{
		"host view": {"--profile", "ndr400", "--nccl-view", "host"},
		"tcp":       {"--profile", "ndr400", "--transport", "tcp"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := decided(t, nil, "32K", "2M", args...); has(got, "LL128") {
				t.Errorf("%q", got)
			}
		})
	}
}

// A GPU's LL128 is not safe through host memory: NCCL must never choose it there,
// and is told so where the real fabric would have it, even if NCCL_PROTO lists it.
func TestNoLL128OnAGPU(t *testing.T) {
	driver := filepath.Join(t.TempDir(), "libcuda.so.1")
	if out, err := exec.Command("gcc", "-shared", "-fPIC", "-Wall", "-Werror", "-Wl,-soname,libcuda.so.1", "testdata/libcuda.c", "-o", driver).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	gpu := "LD_PRELOAD=" + driver
	if got := decided(t, []string{gpu}, "32K", "2M", "--profile", "ndr400"); has(got, "LL128") {
		t.Errorf("%q", got)
	}
	text := unsafe(t, gpu, "LL,LL128,Simple", false)
	unsafe(t, gpu, "LL128", true) // NCCL would have nothing left
	for _, want := range []string{
		"NCCL decides by the fabric's view, but without LL128, which the real fabric would use",
		"AllReduce of 2097152 bytes: the real fabric would use LL128, which is taken out",
	} {
		if n := strings.Count(text, want); n != 1 {
			t.Errorf("the log says %d times, want once: %s", n, want)
		}
	}
}

// unsafe runs AllReduces with NCCL_PROTO=proto, which asks for LL128, on what looks like
// a GPU. The verdict must be INVALID, and NCCL's choices LL128 or not. Returns rank 0's log.
func unsafe(t *testing.T, gpu, proto string, ll128 bool) string {
	t.Helper()
	logs := t.TempDir()
	r := bench(t, folder(t), []string{gpu, "NCCL_PROTO=" + proto}, "allreduce", "--profile", "ndr400", "--ranks", "2",
		"-b", "32K", "-e", "2M", "-f", "8", "-n", "1", "-w", "1", "--time-scale", "1", "--log-dir", logs)
	if r.Verdict != "INVALID" {
		t.Errorf("NCCL_PROTO=%s on a GPU: %s", proto, r.Verdict)
	}
	text, err := os.ReadFile(filepath.Join(logs, "rank0.log"))
	if err != nil {
		t.Fatal(err)
	}
	var p nccllog.Parser
	_, _ = p.Write(text)
	if len(p.Comm().Choices) == 0 {
		t.Fatal("no choices in the log")
	}
	for _, c := range p.Comm().Choices {
		if (c.Proto == nccllog.ProtoLL128) != ll128 {
			t.Errorf("NCCL_PROTO=%s: %+v", proto, c)
		}
	}
	return string(text)
}

// The user's own topology file stands.
func TestUsersTopologyFile(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "mine.xml")
	// On a NIC of 10 Gb/s, whatever the profile says.
	text := `<system version="1"><cpu numaid="-1" arch="x86_64" vendor="AuthenticAMD" familyid="25" modelid="1">
<pci busid="0000:50:00.0" class="0x020000" link_speed="8.0 GT/s PCIe" link_width="16"><nic><net name="goemu0" speed="10000" latency="1" port="1" guid="0x1" gdr="0"/></nic></pci>
</cpu></system>`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	r := bench(t, folder(t), []string{"NCCL_TOPO_FILE=" + file}, "allreduce", "--profile", "ndr400", "--ranks", "2",
		"-b", "2M", "-e", "2M", "-n", "1", "-w", "1", "--time-scale", "1", "--log-dir", dir)
	log, err := os.ReadFile(filepath.Join(dir, "rank0.log"))
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Rows) == 0 || !strings.Contains(string(log), "NCCL decides by the topology in NCCL_TOPO_FILE="+file+", which is kept") || !strings.Contains(string(log), "NET[1.2]") {
		t.Errorf("the user's NCCL_TOPO_FILE:\n%s", log)
	}
}
