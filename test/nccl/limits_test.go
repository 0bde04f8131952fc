// SPDX-License-Identifier: Apache-2.0

package nccl

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ddlemu/ddlemu/test/built"
)

// The exit status tells a row that is not as asked for (1) from a verdict of INVALID (3), which comes first: then nobody
// knows how long a row takes. The file of --junit says the same.
func TestLimits(t *testing.T) {
	exact := []string{"--profile", "ndr400", "-b", "1M", "-e", "2M", "-f", "2"}
	// At 1 Gb/s a row takes 9 ms. The fault makes the engine's rate wrong, on any host.
	wrong := []string{"--profile", "eth1", "--time-scale", "16", "-b", "1M", "-e", "1M", "--verbose"}
	fault := []string{"DDLEMU_PLUGIN_DIR=" + built.Path(t, "faults"), "DDLEMU_FAULT=slow 3"}
	for _, tc := range []struct {
		name          string
		env, args     []string
		status        int
		stderr, junit string
	}{
		{"nothing asked", nil, exact, 0, "", `tests="2" failures="0" errors="0" skipped="0"`},
		{"as asked", nil, append(exact, "--tolerance", "1%", "--min-busbw", "300Gbps", "--max-time", "60us"), 0, "", `failures="0" errors="0"`},
		{"bandwidth", nil, append(exact, "--min-busbw", "41GB/s"), 1, "ddlemu: 1 of 2 rows not as asked for: 1048576 bytes out of place: the bus bandwidth is 39.", `type="min-busbw"`},
		{"time", nil, append(exact, "--max-time", "40us"), 1, "ddlemu: 1 of 2 rows not as asked for: 2097152 bytes out of place: it took 50.", `type="max-time"`},
		{"tolerance", nil, append(exact, "--max-time", "1s", "--tolerance", "0.01%"), 1, "--tolerance is 0.01%", `type="tolerance"`},
		{"INVALID", fault, wrong, 0, "", `<error message="INVALID: model: `},
		{"INVALID, strict", fault, append(wrong, "--strict"), 3, "ddlemu: the verdict is INVALID: model: ", `type="model"`},
		{"INVALID, and asked for", fault, append(wrong, "--max-time", "1us"), 3, "ddlemu: the verdict is INVALID: model: ", `failures="0" errors="1"`},
		{"INVALID, and as asked for", fault, append(wrong, "--max-time", "1h"), 3, "ddlemu: the verdict is INVALID: model: ", `failures="0" errors="1"`},
		{"a rank that cannot start", []string{"NCCL_ALGO=^ring,tree", "NCCL_SOCKET_IFNAME=none"}, exact, 1, "ddlemu: ", `errors="1" skipped="2"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := folder(t)
			path := filepath.Join(t.TempDir(), "out.xml")
			cmd := ddlemu(t.Context(), t, dir, tc.env, append([]string{"bench", "allreduce", "--ranks", "2", "-n", "2", "-w", "1", "--junit", path}, tc.args...)...)
			var stderr bytes.Buffer
			cmd.Stderr = &stderr
			out, err := cmd.Output()
			status := 0
			var exit *exec.ExitError
			if errors.As(err, &exit) {
				status = exit.ExitCode()
			}
			if status != tc.status || !strings.Contains(stderr.String(), tc.stderr) {
				t.Errorf("exit status %d, want %d; want %q in\n%s%s", status, tc.status, tc.stderr, out, stderr.String())
			}
			report, err := os.ReadFile(path)
			if err != nil || !strings.Contains(string(report), tc.junit) {
				t.Errorf("%v, no %s in\n%s", err, tc.junit, report)
			}
		})
	}
}
