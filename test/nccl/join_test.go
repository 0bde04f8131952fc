// SPDX-License-Identifier: Apache-2.0

package nccl

import (
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/ddlemu/ddlemu/test/world"
)

// A bench whose other nodes join takes the model's time, as one that has all nodes. test/containers does that in
// containers.
func TestJoin(t *testing.T) {
	t.Parallel()
	for _, version := range []string{"2.22", "2.29"} {
		w := world.New(t)
		joined := make(chan world.Outcome)
		for _, node := range []string{"1", "2"} {
			go func() { joined <- w.Try("join", "--node", node) }()
		}
		exact(t, bench(t, w.Dir, nil, "allreduce", "--profile", "eth1", "--ranks", "6", "--nodes", "3", "--nccl", version,
			"-b", "1M", "-e", "1M", "-n", "2", "-w", "1", "--join", "1m"))
		for range 2 {
			if o := <-joined; o.Exit != 0 || o.Text() != "" {
				t.Errorf("a node ends with status %d: %s", o.Exit, o.Text())
			}
		}
	}
}

// If the process of a node is killed, its ranks die and the bench fails. If the bench is killed, the node ends.
func TestJoinIsKilled(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ killed, other, want string }{
		{"join", "bench", "node 1 has left"}, {"bench", "join", "the bench has failed: it ended without saying how"},
	} {
		w := world.New(t)
		commands := map[string]*exec.Cmd{
			"join": w.Command(t.Context(), "join", "--node", "1"),
			"bench": w.Command(t.Context(), "bench", "allreduce", "--profile", "eth1", "--ranks", "2", "-b", "1M", "-e", "1M",
				"-n", "10000000", "--join", "1m"),
		}
		var stderr strings.Builder
		commands[c.other].Stderr = &stderr
		for _, cmd := range commands {
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
		}
		for begin := time.Now(); strings.Count(w.Try("status", "--json").Stdout, `"alive": true`) < 2; {
			if time.Since(begin) > time.Minute {
				t.Fatalf("the ranks do not start: %s", stderr.String())
			}
			time.Sleep(10 * time.Millisecond)
		}
		if err := commands[c.killed].Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = commands[c.killed].Wait()
		err := commands[c.other].Wait()
		if commands[c.other].ProcessState.ExitCode() != 1 || !strings.Contains(stderr.String(), c.want) {
			t.Errorf("%s is killed: %s ends with %v, and says %q", c.killed, c.other, err, stderr.String())
		}
		w.Run("gc")
	}
}
