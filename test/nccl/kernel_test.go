// SPDX-License-Identifier: Apache-2.0

package nccl

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ddlemu/ddlemu/test/built"
	"github.com/ddlemu/ddlemu/test/needs"
)

// Over real TCP, NCCL takes the same time as over the shm datapath with the model's TCP, and the model's time.
func TestKernelTakesTheTimeOfShm(t *testing.T) {
	needs.Root(t, "the kernel datapath")
	for _, version := range []string{"2.22", "2.29"} {
		t.Run(version, func(t *testing.T) {
			dir := folder(t)
			args := []string{"allreduce", "--profile", "eth1", "--ranks", "2", "--nccl", version, "-b", "1M", "-e",
				"1M", "-n", "3", "-w", "1"}
			shm := bench(t, dir, nil, args...)
			exact(t, shm)
			onRealClock(t, func(scale string) error {
				kernel := bench(t, dir, nil, append(args, "--set", "datapath=kernel", "--set", "time_scale="+scale)...)
				if kernel.Header.Datapath != "kernel" {
					t.Fatalf("header %+v", kernel.Header)
				}
				for i, row := range kernel.Rows {
					near(t, "the model's time over shm", row.ExpectedUS, shm.Rows[i].ExpectedUS)
				}
				return inTime(t, kernel, 5)
			})
		})
	}
}

// At a time scale at which the shaper is in time, the run is VALID: both the plugin's messages and the shaper's packets
// are judged.
func TestKernelIsValid(t *testing.T) {
	needs.Root(t, "the kernel datapath")
	dir := folder(t)
	scales := []string{"32", "64", "128"}
	onRealClock(t, func(string) error {
		scale := scales[0]
		scales = scales[1:]
		r := bench(t, dir, nil, "allreduce", "--profile", "eth1", "--set", "datapath=kernel", "--ranks", "2", "-b", "512K",
			"-e", "512K", "-n", "2", "-w", "1", "--set", "time_scale="+scale)
		if r.Verdict != "VALID" {
			onlyTheHost(t, r.Verdict, r.Findings)
			return fmt.Errorf("time scale %s: %s %q", scale, r.Verdict, r.Reasons)
		}
		return nil
	})
}

// A link with less latency than the shaper's minimum is INVALID at time scale 1, with that reason.
func TestKernelBelowItsFloorIsInvalid(t *testing.T) {
	t.Parallel()
	needs.Root(t, "the kernel datapath")
	r := bench(t, folder(t), nil, "allreduce", "--profile", "eth1", "--lat", "2us", "--set", "datapath=kernel", "--ranks",
		"2", "-b", "1M", "-e", "1M", "-n", "3", "-w", "1", "--set", "time_scale=1")
	if r.Verdict != "INVALID" ||
		!strings.Contains(strings.Join(r.Reasons, "\n"), "shorter than the shaper can emulate") {
		t.Errorf("%s %q", r.Verdict, r.Reasons)
	}
}

// One launcher for all ranks, in the host's namespace: their sockets come from the fabric's daemon.
func TestRunOnKernel(t *testing.T) {
	t.Parallel()
	needs.Root(t, "the kernel datapath")
	bin, dir := program(t), folder(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	out, err := ddlemu(ctx, t, dir, []string{"NCCL_DEBUG=INFO"}, "run", "--set", "datapath=kernel", "--profile", "eth10",
		"--soft-cuda", "--", bin).CombinedOutput()
	if err != nil {
		t.Fatalf("%v:\n%s", err, out)
	}
	for _, want := range []string{"all right", "via NET/goemu", "verdict: "} {
		if !strings.Contains(string(out), want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}

// A daemon that was killed takes the links with it. The ranks get an error that names it, as docs/failures.md promises.
func TestKernelDaemonIsKilled(t *testing.T) {
	needs.Root(t, "the kernel datapath")
	const promise = 2 * time.Second
	dir := folder(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	logs := t.TempDir()
	cmd := ddlemu(ctx, t, dir, []string{"NCCL_DEBUG=WARN", "NCCL_DEBUG_FILE=" + filepath.Join(logs, "%p")}, "bench",
		"allreduce", "--set", "datapath=kernel", "--profile", "eth1", "--ranks", "2", "-b", "512K", "-e", "512K", "-n",
		"1000000", "--set", "time_scale=1")
	out := &strings.Builder{}
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for !strings.Contains(statusOf(ctx, t, dir), " 2 joined") {
		time.Sleep(100 * time.Millisecond)
	}
	time.Sleep(time.Second) // NCCL connects
	killed := time.Now()
	for _, pid := range daemonsOf(t, dir) {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	err := cmd.Wait()
	const allowance = 2 * time.Second // for what bench does then
	if took := time.Since(killed); err == nil || took > promise+allowance {
		t.Errorf("%v after %v, want an error within %v", err, took, promise+allowance)
	}
	paths, err := filepath.Glob(filepath.Join(logs, "*"))
	if err != nil || len(paths) != 2 {
		t.Fatalf("logs of 2 ranks: %q, %v, and\n%s", paths, err, out)
	}
	for _, path := range paths {
		if text, err := os.ReadFile(path); err != nil ||
			!strings.Contains(string(text), "the fabric's daemon died: see `ddlemu status`") {
			t.Errorf("no error that names the daemon: %v\n%s", err, text)
		}
	}
	if out, err := ddlemu(ctx, t, dir, nil, "gc").CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

// statusOf returns what `ddlemu status` prints, also while there is no fabric.
func statusOf(ctx context.Context, t *testing.T, dir string) string {
	t.Helper()
	if err := ctx.Err(); err != nil {
		t.Fatal(err)
	}
	out, _ := ddlemu(ctx, t, dir, nil, "status").CombinedOutput()
	return string(out)
}

// daemonsOf returns the process IDs of the daemons of the fabrics in the folder. There is one at least.
func daemonsOf(t *testing.T, dir string) (pids []int) {
	t.Helper()
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range lines {
		text, _ := os.ReadFile(path) // the process may have ended
		args := strings.Split(string(text), "\x00")
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err == nil && slices.Contains(args, dir) && slices.Contains(args, "daemon") {
			pids = append(pids, pid)
		}
	}
	if len(pids) == 0 {
		t.Fatalf("no daemon of the fabrics in %s", dir)
	}
	return pids
}

// Inside the nodes, both NCCL's sockets and the plugin use the same fabric.
func TestInsideTheNodes(t *testing.T) {
	t.Parallel()
	needs.Root(t, "the kernel datapath")
	bin, dir := program(t), folder(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	if out, err := ddlemu(ctx, t, dir, nil, "up", "--profile", "eth10", "--nodes", "2", "--set", "datapath=kernel",
		"--name", "lab").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	defer func() {
		if out, err := ddlemu(context.Background(), t, dir, nil, "down").CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	}()
	for _, tc := range []struct{ version, net, plugin string }{{"2.22", "Socket", "none"}, {"2.29", "Socket", "none"},
		{"2.22", "goemu", "goemu"}, {"2.29", "goemu", "goemu"}} {
		t.Run(tc.net+" "+tc.version, func(t *testing.T) {
			ids := filepath.Join(t.TempDir(), "id")
			var ranks []*exec.Cmd
			var outs []*strings.Builder
			for r := range 2 {
				cmd := ddlemu(ctx, t, dir,
					[]string{"LD_LIBRARY_PATH=" + built.Path(t, "softcuda", "lib", "nccl-"+tc.version) + ":" +
						built.Path(t, "softcuda", "lib")}, "exec", fmt.Sprintf("node%d", r), "--",
					"env", "NCCL_NET_PLUGIN="+tc.plugin, "NCCL_NET="+tc.net, "NCCL_SOCKET_IFNAME=eth0",
					"NCCL_DEBUG=INFO", fmt.Sprintf("NCCL_HOSTID=ddlemu-node%d", r),
					fmt.Sprintf("RANK=%d", r), "WORLD_SIZE=2", "ID_FILE="+ids, bin)
				out := &strings.Builder{}
				cmd.Stdout, cmd.Stderr = out, out
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				ranks, outs = append(ranks, cmd), append(outs, out)
			}
			for r, cmd := range ranks {
				if err := cmd.Wait(); err != nil || !strings.Contains(outs[r].String(), "via NET/"+tc.net) ||
					!strings.Contains(outs[r].String(), tc.version[:1]+"."+tc.version[2:]) {
					t.Errorf("rank %d: %v:\n%s", r, err, outs[r])
				}
			}
		})
	}
}

// With sudo, the job's programs and the fabric belong to the user who called it.
func TestRunOnKernelForAUser(t *testing.T) {
	t.Parallel()
	needs.Root(t, "the kernel datapath")
	const nobody = 65534
	bin, dir := program(t), folder(t)
	look := exec.Command("cat", built.Path(t, "lib", "libgoemu.so"),
		built.Path(t, "softcuda", "lib", "libcudart.so.12"), bin)
	look.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	if err := look.Run(); err != nil {
		t.Skipf("user %d cannot read build/ here: %v", nobody, err)
	}
	if err := os.Chown(dir, nobody, nobody); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	out, err := ddlemu(ctx, t, dir, []string{fmt.Sprint("SUDO_UID=", nobody)}, "run", "--set", "datapath=kernel",
		"--profile", "eth10", "--soft-cuda", "--", "sh", "-c", "echo user $(id -u) && exec "+bin).CombinedOutput()
	if err != nil || !strings.Contains(string(out), fmt.Sprint("user ", nobody, "\n")) ||
		!strings.Contains(string(out), "all right") {
		t.Errorf("%v:\n%s", err, out)
	}
}
