// SPDX-License-Identifier: Apache-2.0

package host

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/ddlemu/ddlemu/shaper/kernel/shapers"
)

func file(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text), Mode: 0o644} }

// machine is a machine with these files and variables.
func machine(files fstest.MapFS, env ...string) Machine {
	return Machine{Root: files, Plugin: "/x/lib", SoftCUDA: "/x/softcuda", Getenv: func(name string) string {
		for _, e := range env {
			if v, ok := strings.CutPrefix(e, name+"="); ok {
				return v
			}
		}
		return ""
	}}
}

func TestGPUs(t *testing.T) {
	const gpu = "proc/driver/nvidia/gpus/0000:3b:00.0/information"
	for _, c := range []struct {
		name  string
		files fstest.MapFS
		want  Grade
		found string
	}{
		{"none", fstest.MapFS{}, Missing, "none"},
		{"driver alone", fstest.MapFS{"dev/nvidiactl": file("")}, Warn, "a driver, no GPU"},
		{"GPU without libcuda", fstest.MapFS{gpu: file("Model: \t\t NVIDIA H200\n")}, Warn,
			"0000:3b:00.0 (NVIDIA H200)"},
		{"GPU", fstest.MapFS{gpu: file("Model: X"), "usr/lib64/libcuda.so.1": file("")}, OK, "0000:3b:00.0 (X)"},
	} {
		if got := machine(c.files).gpus(); got.Grade != c.want || got.Found != c.found {
			t.Errorf("%s: %s, %q", c.name, got.Grade, got.Found)
		}
	}
}

func TestMPS(t *testing.T) {
	gpu := fstest.MapFS{"proc/driver/nvidia/gpus/0/information": file("")}
	if got := machine(gpu).mps(); got.Grade != Missing {
		t.Errorf("a GPU without MPS: %v", got)
	}
	gpu["run/mps/control"] = file("")
	if got := machine(gpu, "CUDA_MPS_PIPE_DIRECTORY=/run/mps").mps(); got.Grade != OK {
		t.Errorf("a GPU with MPS: %v", got)
	}
	if got := machine(fstest.MapFS{}).mps(); got.Grade != OK {
		t.Errorf("no GPU: %v", got)
	}
}

func TestNCCL(t *testing.T) {
	// The version crosses the border of two reads.
	big := strings.Repeat("x", 1<<20-20) + "NCCL version 2.27.5+cuda12.9\x00"
	m := machine(fstest.MapFS{
		"opt/nccl/libnccl.so.2": file(big),
		"home/u/.local/lib/python3.11/site-packages/nvidia/nccl/lib/libnccl.so.2": file("NCCL version %d.%d"),
		"etc/ld.so.conf.d/nccl.conf":             file("# ours\n/opt/nccl\n"),
		"x/softcuda/lib/libcudart.so":            file(""),
		"x/softcuda/lib/nccl-2.22/libnccl.so.2":  file("NCCL version 2.22.3+cuda12.1"),
		"x/softcuda/lib/nccl-2.22/libnccl.so.21": file("NCCL version 9.9.9"),
	}, "HOME=/home/u", "LD_LIBRARY_PATH=/x/softcuda/lib/nccl-2.22:relative:")
	want := "2.27.5 (/opt/nccl/libnccl.so.2), of unknown version (/home/u/.local/lib/python3.11/site-packages/nvidia/nccl/lib/libnccl.so.2)"
	if got := m.nccl(); got.Grade != OK || got.Found != want {
		t.Errorf("got %s, %q", got.Grade, got.Found)
	}
	if got := m.softCUDA(); got.Grade != OK || got.Found != "NCCL 2.22.3 in /x/softcuda" {
		t.Errorf("got %s, %q", got.Grade, got.Found)
	}
	empty := machine(fstest.MapFS{})
	if got := empty.nccl(); got.Grade != Missing || got.Next == "" {
		t.Errorf("nothing there: %+v", got)
	}
	if got := empty.softCUDA(); got.Grade != Missing {
		t.Errorf("nothing there: %+v", got)
	}
}

func TestQuota(t *testing.T) {
	for _, c := range []struct {
		name       string
		membership string
		files      fstest.MapFS
		want       float64
	}{
		{"none", "0::/\n", fstest.MapFS{}, 0},
		{"version 2", "0::/a/b\n", fstest.MapFS{"a/b/cpu.max": file("150000 100000\n")}, 1.5},
		{"no limit", "0::/a\n", fstest.MapFS{"a/cpu.max": file("max 100000\n")}, 0},
		{"the parent's is less", "0::/a/b\n",
			fstest.MapFS{"a/b/cpu.max": file("400000 100000"), "a/cpu.max": file("200000 100000")}, 2},
		{"a container that sees its own root", "0::/docker/f00\n", fstest.MapFS{"cpu.max": file("300000 100000")}, 3},
		{"hybrid", "3:cpuset:/\n0::/a\n", fstest.MapFS{"unified/a/cpu.max": file("50000 100000")}, 0.5},
		{"version 1", "4:cpu,cpuacct:/x\n", fstest.MapFS{
			"cpu,cpuacct/x/cpu.cfs_quota_us": file("250000\n"), "cpu,cpuacct/x/cpu.cfs_period_us": file("100000\n"),
		}, 2.5},
		{"version 1 without limit", "4:cpu:/\n",
			fstest.MapFS{"cpu/cpu.cfs_quota_us": file("-1\n"), "cpu/cpu.cfs_period_us": file("100000\n")}, 0},
		{"nonsense", "x\n0::/a", fstest.MapFS{"a/cpu.max": file("many few\n")}, 0},
	} {
		if got := quota(c.files, c.membership); got != c.want {
			t.Errorf("%s: got %g cores, want %g", c.name, got, c.want)
		}
	}
}

func TestListLength(t *testing.T) {
	for text, want := range map[string]int{"": 0, "0": 1, "0-3\n": 4, "0-1,4,6-7": 5, "3-1": 0, "x": 0, "1-": 0} {
		if got := listLength(text); got != want {
			t.Errorf("%q: got %d, want %d", text, got, want)
		}
	}
}

func TestPartsCheck(t *testing.T) {
	for _, c := range []struct {
		name string
		all  []shapers.Feature
		want Grade
	}{
		{"all", []shapers.Feature{{Name: "htb"}, {Name: "netem"}}, OK},
		{"no delay", []shapers.Feature{{Name: "htb"}, {Name: "netem", Err: shapers.ErrNotSupported},
			{Name: "fq", Err: shapers.ErrNotSupported}}, Warn},
		{"no rate", []shapers.Feature{{Name: "htb", Err: shapers.ErrNotSupported}, {Name: "netem"}}, Missing},
		{"no namespace", []shapers.Feature{{Name: "htb", Err: shapers.ErrNotProbed}}, NotTested},
	} {
		if got := partsCheck(c.all); got.Grade != c.want || (got.Grade != OK) != (got.Next != "") {
			t.Errorf("%s: %+v", c.name, got)
		}
	}
	want := "tbf; not fq; not known: netem (invalid argument)"
	if diff := cmp.Diff(want,
		describe([]shapers.Feature{{Name: "tbf"}, {Name: "fq", Err: shapers.ErrNotSupported},
			{Name: "netem", Err: unix.EINVAL}})); diff != "" {
		t.Error(diff)
	}
}

func TestAutoCheck(t *testing.T) {
	lacking := func(parts ...string) []shapers.Info {
		m := map[string]error{}
		for _, p := range parts {
			m[p] = shapers.ErrNotSupported
		}
		return shapers.List(shapers.KnownKernel(m))
	}
	for _, c := range []struct {
		all  []shapers.Info
		want string
		next bool
	}{
		{lacking(), "edt", false},
		{lacking("fq"), "netem", false},
		{lacking("fq", "netem"), "htb for links without latency, wire for others", false},
		{lacking("fq", "netem", shapers.BPF), "wire", false},
		{lacking("fq", "htb"), "none", true},
	} {
		if got := autoCheck(c.all); got.Found != c.want || (got.Next != "") != c.next {
			t.Errorf("%+v, want %s", got, c.want)
		}
	}
}

// Every check on this machine says what was found and what it means, and how to get what is absent.
func TestChecksAreComplete(t *testing.T) {
	names := map[string]bool{}
	for _, c := range (Machine{}).Checks() {
		if c.Name == "" || c.Found == "" || c.Means == "" || (c.Grade != OK) != (c.Next != "") || names[c.Name] {
			t.Errorf("%+v", c)
		}
		names[c.Name] = true
	}
	if len(names) < 12 {
		t.Errorf("%d checks", len(names))
	}
}
