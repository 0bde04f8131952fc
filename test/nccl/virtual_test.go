// SPDX-License-Identifier: Apache-2.0

package nccl

import (
	"context"
	"os/exec"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"
)

// With a virtual clock the times of real NCCL are the same to the last digit each time, also
// while other programs use both cores, and VALID without a time scale.
func TestVirtualTimeIsTheSameEachTime(t *testing.T) {
	for _, tc := range [][]string{
		{"allreduce", "--ranks", "2", "--nccl", "2.22", "-e", "4M"},
		{"allreduce", "--ranks", "2", "--nccl", "2.29", "-e", "4M"},
		{"allreduce", "--ranks", "4", "--nodes", "2", "--nccl", "2.29", "-e", "1M"},
		{"alltoall", "--ranks", "4", "--nccl", "2.22", "-e", "1M"},
	} {
		t.Run(strings.Join(tc, " "), func(t *testing.T) {
			dir := folder(t)
			args := append(tc, "--profile", "ndr400", "--clock", "virtual", "-b", "8", "-f", "16", "-n", "5", "-w", "1")
			first := bench(t, dir, nil, args...)
			if first.Verdict != "VALID" || first.Header.Clock != "virtual" || first.Header.TimeScale != 1 {
				t.Errorf("verdict %s %q, clock %s, time scale %v", first.Verdict, first.Reasons, first.Header.Clock, first.Header.TimeScale)
			}
			occupy(t)
			if second := bench(t, dir, nil, args...); !reflect.DeepEqual(first.Rows, second.Rows) {
				t.Errorf("with two busy loops beside it:\n%+v\nwithout:\n%+v", second.Rows, first.Rows)
			}
		})
	}
}

// occupy keeps two cores busy until the test ends.
func occupy(t *testing.T) {
	t.Helper()
	for range 2 {
		loop := exec.Command("sh", "-c", "while :; do :; done")
		loop.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		if err := loop.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = loop.Process.Kill()
			_ = loop.Wait()
		})
	}
}

// A program whose threads the software CUDA does not know cannot use a virtual clock: time
// would never move, or move while it works. The plugin says so.
func TestVirtualTimeIsRefusedToOtherPrograms(t *testing.T) {
	dir := folder(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := ddlemu(ctx, t, dir, nil, "run", "--profile", "ndr400", "--clock", "virtual", "--soft-cuda", "--", program(t))
	out, _ := cmd.CombinedOutput()
	if !strings.Contains(string(out), "only the ranks of `ddlemu bench` can use so far") {
		t.Errorf("output:\n%s", out)
	}
}
