// SPDX-License-Identifier: Apache-2.0

package programs

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ddlemu/ddlemu/test/world"
)

// Open MPI starts 4 ranks on 2 nodes with `ddlemu ssh` and the list of `ddlemu hostfile`. Their results are right,
// and if the latency of the link increases by 10 ms, so does the time of a message.
func TestOpenMPI(t *testing.T) {
	w := newUser(t, "mpirun.openmpi", "mpicc.openmpi")
	w.run("mpicc.openmpi", "-O2", "-Wall", "-Wextra", "-o", filepath.Join(w.work, "pingpong"),
		world.Absolute(t, "testdata", "pingpong.c"))
	w.run("ddlemu", "up", "--profile", "eth1", "--lat", "5ms", "--nodes", "2", "--set", "datapath=kernel")
	w.shell("ddlemu hostfile --slots 2 > hosts")
	const low, high = 5000.0, 15000.0 // us, one way
	var before, after float64
	for try := range 3 { // on a busy host, messages may be late
		w.run("ddlemu", "shape", "--lat", "5ms")
		before = w.pingpong()
		w.run("ddlemu", "shape", "--lat", "15ms")
		after = w.pingpong()
		t.Logf("try %d: %.0f us at 5 ms, %.0f us at 15 ms", try, before, after)
		if before < low || after < high {
			t.Fatal("a message was faster than the latency of the link")
		}
		if near(after-before, high-low, 0.95, 1.05) {
			return
		}
	}
	t.Errorf("%.0f us at 5 ms, %.0f us at 15 ms: the difference is not 10 ms", before, after)
}

// pingpong returns the time of a message in us.
func (w *user) pingpong() float64 {
	w.Helper()
	const line = `ddlemu exec node0 -- mpirun --allow-run-as-root --hostfile hosts --mca plm_rsh_agent "ddlemu ssh"`
	w.documented(line)
	// mpirun may be that of another MPI
	o := w.shell(strings.Replace(line, "mpirun", "mpirun.openmpi", 1) + " ./pingpong")
	var us float64
	if _, err := fmt.Sscanf(o.Stdout, "allreduce ok\nlatency %f us\n", &us); err != nil {
		w.Fatalf("%v: %s%s", err, o.Stdout, o.Stderr)
	}
	return us
}

// The job ends with the exit status of a rank that fails, on any node.
func TestOpenMPIFailure(t *testing.T) {
	w := newUser(t, "mpirun.openmpi")
	w.run("ddlemu", "up", "--profile", "eth1", "--nodes", "2", "--set", "datapath=kernel")
	o := w.try("ddlemu", "exec", "node0", "--", "mpirun.openmpi", "--allow-run-as-root", "-H", "node0,node1", "--mca",
		"plm_rsh_agent", "ddlemu ssh",
		"sh", "-c", "test $(hostname) = node0 && sleep 60; exit 6")
	if o.Exit != 6 {
		t.Errorf("exit status %d, want 6: %s%s", o.Exit, o.Stdout, o.Stderr)
	}
}

// Hydra, the launcher of MPICH and Intel MPI, needs a launcher that is a single path without arguments.
func TestHydra(t *testing.T) {
	w := newUser(t, "mpiexec.hydra")
	w.run("ddlemu", "up", "--profile", "eth1", "--nodes", "2", "--set", "datapath=kernel")
	w.shell("ddlemu hostfile --style hydra --slots 2 > hosts")
	o := w.shell(
		`ddlemu exec node0 -- mpiexec.hydra -f hosts -launcher ssh -launcher-exec ddlemu-ssh sh -c 'echo $PMI_RANK on $(hostname)'`)
	lines := strings.Fields(strings.ReplaceAll(o.Stdout, " ", "_"))
	slices.Sort(lines)
	if want := []string{"0_on_node0", "1_on_node0", "2_on_node1", "3_on_node1"}; !slices.Equal(lines, want) {
		t.Errorf("got %q, want %q: %s", lines, want, o.Stderr)
	}
}

// pdsh calls the first ssh on PATH. So does the launcher of DeepSpeed, which uses pdsh with this command line.
func TestPdsh(t *testing.T) {
	w := newUser(t, "pdsh")
	w.run("ddlemu", "up", "--profile", "eth1", "--nodes", "2", "--set", "datapath=kernel")
	w.shell(`mkdir bin && ln -s "$(command -v ddlemu)" bin/ssh`)
	w.path = filepath.Join(w.work, "bin") + ":" + w.path
	o := w.run("env", "PDSH_RCMD_TYPE=ssh", "pdsh", "-S", "-f", "1024", "-w", "node0,node1",
		"export A=7; cd /; echo $A $(pwd) $(hostname) %n")
	lines := strings.Split(strings.TrimSpace(o.Stdout), "\n")
	slices.Sort(lines)
	if want := []string{"node0: 7 / node0 0", "node1: 7 / node1 1"}; !slices.Equal(lines, want) {
		t.Errorf("got %q, want %q: %s", lines, want, o.Stderr)
	}
	if o := w.try("env", "PDSH_RCMD_TYPE=ssh", "pdsh", "-S", "-w", "node1", "exit 5"); o.Exit != 5 {
		t.Errorf("exit status %d, want 5: %s", o.Exit, o.Stderr)
	}
	// DeepSpeed runs this command to find the address of its first node.
	if o := w.run("ssh", "node0", "hostname", "-I"); !strings.HasPrefix(o.Stdout, "10.") {
		t.Errorf("addresses of node0: %q", o.Stdout)
	}
}

// A real sshd can run on each node, with the command lines of docs/kernel.md.
func TestRealSSHD(t *testing.T) {
	w := newUser(t, "sshd", "ssh", "ssh-keygen")
	if err := os.MkdirAll("/run/sshd", 0o755); err != nil { // Debian's sshd needs this folder
		t.Fatal(err)
	}
	w.run("ddlemu", "up", "--profile", "eth1", "--nodes", "2", "--set", "datapath=kernel")
	w.shell("ssh-keygen -q -t ed25519 -N '' -f key")
	w.shell(
		`for n in 0 1; do ddlemu exec node$n -- $(command -v sshd) -h $PWD/key -o AuthorizedKeysFile=$PWD/key.pub -o StrictModes=no -o PidFile=$PWD/sshd$n.pid; done`)
	t.Cleanup(func() { w.shell(`kill $(cat sshd0.pid sshd1.pid)`) })
	o := w.shell(
		`ddlemu exec node0 -- ssh -i key -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null node1 hostname`)
	if o.Stdout != "node1\n" {
		t.Errorf("got %q: %s", o.Stdout, o.Stderr)
	}
}
