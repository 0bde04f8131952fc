// SPDX-License-Identifier: Apache-2.0

package job

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// Shells that wait for ranks start nothing more. One that waits for another program may.
func TestOnlyWait(t *testing.T) {
	for name, tc := range map[string]struct {
		shell, script string
		want          bool
	}{
		"bash":                {"bash", "sleep 60 & echo $!; wait", true},
		"sh":                  {"sh", "sleep 60 & echo $!; wait", true},
		"a shell of a shell":  {"bash", "bash -c 'sleep 60 & echo $!; wait'; true", true},
		"it sleeps first":     {"bash", "sleep 60 & echo $!; sleep 59; true", false},
		"another environment": {"bash", "env -i sleep 60 & sleep 60 & echo $!; wait", false},
		"it reads":            {"bash", "sleep 60 & echo $!; read", false},
	} {
		t.Run(name, func(t *testing.T) {
			id := randomText()
			cmd := exec.Command("bash", "-c", tc.script)
			if tc.shell == "sh" {
				cmd = exec.Command("sh", "-c", tc.script)
			}
			cmd.Env = append(os.Environ(), JobEnv+"="+id)
			cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
			in, err := cmd.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			defer in.Close()
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			defer func() {
				_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
				_ = cmd.Wait() // it was killed
			}()
			var rank int
			if _, err := fmt.Fscan(bufio.NewReader(out), &rank); err != nil {
				t.Fatal(err)
			}
			if !tc.want {
				time.Sleep(200 * time.Millisecond) // until the programs run, which have the shell's environment before
			}
			got := false
			for end := time.Now().Add(5 * time.Second); ; time.Sleep(10 * time.Millisecond) {
				if got = onlyWait(id, map[int]bool{rank: true}); got == tc.want || time.Now().After(end) {
					break
				}
			}
			if got != tc.want {
				t.Errorf("only waits: %t", got)
			}
			if onlyWait(id, nil) {
				t.Error("the rank itself waits for no program")
			}
		})
	}
}

// A process that is gone, or whose file says nothing, does not wait.
func TestWaitsForChildrenOfNone(t *testing.T) {
	for name, text := range map[string]string{"running": "running", "empty": "", "another call": "0 0x1"} {
		folder := t.TempDir()
		thread := filepath.Join(folder, "task", "1")
		if err := os.MkdirAll(thread, 0o700); err != nil {
			t.Fatal(err)
		}
		for file, content := range map[string]string{filepath.Join(thread, "children"): "2 ",
			filepath.Join(folder, "syscall"): text} {
			if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if waitsForChildren(folder, "a job", map[int]bool{2: true}) {
			t.Errorf("%s: it waits", name)
		}
	}
	if waitsForChildren(filepath.Join(t.TempDir(), "none"), "a job", nil) {
		t.Error("a process that is gone waits")
	}
}
