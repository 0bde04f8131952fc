// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"errors"
	"os/exec"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// SIGTERM ends the program of `exec` at whatever moment it arrives: before, while or after ddlemu becomes the program.
func TestSignalWhileStarting(t *testing.T) {
	w := newUser(t)
	w.up("--profile", "eth1", "--nodes", "2")
	const (
		tries = 200
		last  = 30 * time.Millisecond // the program runs by then
	)
	trapped := 0
	for i := range tries {
		cmd := w.command("exec", "node0", "--", "sh", "-c", `trap "exit 9" TERM; while :; do sleep 0.01; done`)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		delay := last * time.Duration(i) / tries
		time.Sleep(delay)
		if err := cmd.Process.Signal(unix.SIGTERM); err != nil {
			t.Fatal(err)
		}
		lost := time.AfterFunc(10*time.Second, func() {
			t.Errorf("SIGTERM after %v had no effect", delay)
			_ = cmd.Process.Kill() // fails if it has just ended
		})
		var exit *exec.ExitError
		if err := cmd.Wait(); !errors.As(err, &exit) {
			t.Fatalf("the program ended with %v", err)
		}
		if lost.Stop(); exit.ExitCode() == 9 {
			trapped++
		}
		if t.Failed() {
			return
		}
	}
	t.Logf("%d of %d programs had begun", trapped, tries)
}
