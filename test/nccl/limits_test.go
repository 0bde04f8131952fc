// SPDX-License-Identifier: Apache-2.0

package nccl

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/ddlemu/ddlemu/test/built"
)

// The exit status tells a row that is not as asked for (1) from a verdict of INVALID (3), which comes first: then
// nobody knows how long a row takes. The file of --junit says the same.
func TestLimits(t *testing.T) {
	t.Parallel()
	exact := []string{"--profile", "ndr400", "-b", "1M", "-e", "2M", "-f", "2"}
	// At 1 Gb/s a row takes 9 ms. The fault makes the engine's rate wrong, on any host.
	wrong := []string{"--profile", "eth1", "--set", "time_scale=16", "-b", "1M", "-e", "1M", "--verbose"}
	fault := []string{"DDLEMU_PLUGIN_DIR=" + built.Path(t, "faults"), "DDLEMU_FAULT=slow 3"}
	for _, tc := range []struct {
		name          string
		env, args     []string
		status        int
		stderr, junit string
	}{
		{"nothing asked", nil, exact, 0, "", `tests="2" failures="0" errors="0" skipped="0"`},
		{"as asked", nil, append(exact, "--require", "model=1%", "--require", "busbw=300Gbps", "--require", "time=60us"), 0, "",
			`failures="0" errors="0"`},
		{"bandwidth", nil, append(exact, "--require", "busbw=41GB/s"), 1,
			"ddlemu: 1 of 2 rows not as asked for: 1048576 bytes out of place: the bus bandwidth is 40.",
			`type="busbw"`},
		{"time", nil, append(exact, "--require", "time=40us"), 1,
			"ddlemu: 1 of 2 rows not as asked for: 2097152 bytes out of place: it took 49.", `type="time"`},
		{"tolerance", nil, append(exact, "--set", "seed=3", "--require", "time=1s", "--require", "model=0.01%"), 1,
			"--require model=0.01%", `type="model"`},
		{"INVALID", fault, wrong, 0, "", `<error message="INVALID: model: `},
		{"INVALID, strict", fault, append(wrong, "--strict"), 3, "ddlemu: the verdict is INVALID: model: ",
			`type="model"`},
		{"INVALID, and asked for", fault, append(wrong, "--require", "time=1us"), 3,
			"ddlemu: the verdict is INVALID: model: ", `failures="0" errors="1"`},
		{"INVALID, and as asked for", fault, append(wrong, "--require", "time=1h"), 3,
			"ddlemu: the verdict is INVALID: model: ", `failures="0" errors="1"`},
		{"a rank that cannot start", []string{"NCCL_ALGO=^ring,tree", "NCCL_SOCKET_IFNAME=none"}, exact, 1, "ddlemu: ",
			`errors="1" skipped="2"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := folder(t)
			path := filepath.Join(t.TempDir(), "out.xml")
			cmd := ddlemu(t.Context(), t, dir, tc.env,
				append([]string{"bench", "allreduce", "--ranks", "2", "-n", "2", "-w", "1", "--junit", path},
					tc.args...)...)
			var stderr bytes.Buffer
			cmd.Stderr = &stderr
			out, err := cmd.Output()
			status := 0
			var exit *exec.ExitError
			if errors.As(err, &exit) {
				status = exit.ExitCode()
			}
			if status != tc.status || !strings.Contains(stderr.String(), tc.stderr) {
				t.Errorf("exit status %d, want %d; want %q in\n%s%s", status, tc.status, tc.stderr, out,
					stderr.String())
			}
			report, err := os.ReadFile(path)
			if err != nil || !strings.Contains(string(report), tc.junit) {
				t.Errorf("%v, no %s in\n%s", err, tc.junit, report)
			}
		})
	}
}

// No host carries 800 Gb/s per NIC at time scale 1. The verdict says that it is this host, how busy it was and how late
// messages were, then the worst three links; --verbose and JSON have all reasons.
func TestBusyHostIsOneCause(t *testing.T) {
	t.Parallel()
	args := []string{"bench", "allreduce", "--profile", "xdr800", "--ranks", "4", "-b", "64K", "-e", "64K", "-n", "5",
		"-w", "1", "--set", "time_scale=1"}
	reasons := func(more ...string) (lines []string) {
		t.Helper()
		out, err := ddlemu(t.Context(), t, folder(t), nil, append(args, more...)...).Output()
		if err != nil {
			t.Fatal(err)
		}
		_, rest, _ := strings.Cut(string(out), "# Avg bus bandwidth")
		for _, line := range strings.Split(rest, "\n")[2:] {
			if text, ok := strings.CutPrefix(line, "# "); ok {
				lines = append(lines, text)
			}
		}
		return lines
	}
	summary := regexp.MustCompile(
		`^host (busy|too slow): [0-9]+ runnable on [0-9.]+ cores; lateness p99 [0-9.]+[mun]?s on node[0-3]:node[0-3], wanted [0-9.]+us$`)
	few := reasons()
	if len(few) != 5 || !summary.MatchString(few[0]) ||
		!regexp.MustCompile(`^and [0-9]+ more: --verbose$`).MatchString(few[4]) {
		t.Errorf("%q", few)
	}
	all := reasons("--verbose")
	if len(all) < 6 || !summary.MatchString(all[0]) || strings.Contains(strings.Join(all, "\n"), "more: ") {
		t.Errorf("with --verbose: %q", all)
	}
	out, err := ddlemu(t.Context(), t, folder(t), nil, append(args, "--json")...).Output()
	var r struct {
		Cause, Summary string
		Reasons        []string
		Findings       []struct{ Cause, Text string }
	}
	if err := errors.Join(err, json.Unmarshal(out, &r)); err != nil || r.Cause != "host" ||
		!summary.MatchString(r.Summary) || len(r.Reasons) < 5 || len(r.Findings) != len(r.Reasons) {
		t.Errorf("%v: %s", err, out)
	}
}
