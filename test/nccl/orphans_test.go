// SPDX-License-Identifier: Apache-2.0

package nccl

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// If a signal ends a launcher, run ends the ranks that it left.
func TestRunEndsWhatALauncherLeft(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pid")
	cmd := ddlemu(t.Context(), t, folder(t), nil, "run", "--profile", "loopback", "--", "sh", "-c", "sleep 1000 & echo $! > "+file+"; wait")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pid := 0
	for begin := time.Now(); pid == 0; time.Sleep(10 * time.Millisecond) {
		text, _ := os.ReadFile(file)
		pid, _ = strconv.Atoi(strings.TrimSpace(string(text)))
		if time.Since(begin) > 20*time.Second {
			t.Fatal("the launcher did not start")
		}
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); cmd.ProcessState.ExitCode() != 128+int(syscall.SIGTERM) {
		t.Errorf("%v, want exit status 143", err)
	}
	if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("what the launcher had started is there: %v", err)
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}

// run accepts --time-scale auto.
func TestRunChoosesATimeScale(t *testing.T) {
	out, err := ddlemu(t.Context(), t, folder(t), nil, "run", "--profile", "loopback", "--time-scale", "auto", "--", "true").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "time scale 1, enough: nothing is shaped") {
		t.Errorf("%v:\n%s", err, out)
	}
}

// Traffic over NCCL's own transport is noticed, although nodes and ranks are correct.
func TestAnotherNetIsInvalid(t *testing.T) {
	bin := program(t)
	text, word := verdictOf(t, folder(t), nil, "--", "env", "NCCL_NET=Socket", bin)
	if word != "INVALID" || !strings.Contains(text, "no message crossed an emulated link") {
		t.Errorf("ranks over NET/Socket:\n%s", text)
	}
}
