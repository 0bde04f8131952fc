// SPDX-License-Identifier: Apache-2.0

package nccl

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ddlemu/ddlemu/test/built"
	"github.com/ddlemu/ddlemu/test/needs"
)

// jobsBlock returns the commands in docs/jobs.md after a line that ends with intro.
func jobsBlock(t *testing.T, intro string) []string {
	t.Helper()
	text, err := os.ReadFile("../../docs/jobs.md")
	if err != nil {
		t.Fatal(err)
	}
	_, block, found := strings.Cut(string(text), intro+"\n\n")
	if !found {
		t.Fatalf("docs/jobs.md has no line that ends with %q", intro)
	}
	block, _, _ = strings.Cut(block, "\n\n")
	return strings.Split(block, "\n")
}

// The job of docs/jobs.md on a fabric that is up: a launcher without `ddlemu run`, and a change of the links during
// the job. The lines run as they are there.
func TestJobOnAFabricThatIsUp(t *testing.T) {
	t.Parallel()
	torchrun := needs.Optional(t, "torchrun")
	path := built.Path(t, "bin") + ":" + os.Getenv("PATH")
	if torchrun == "/usr/bin/torchrun" { // from Debian
		path = built.Path(t, "..", "test", "programs", "testdata", "bin") + ":" + path
	}
	dir, work := folder(t), t.TempDir()
	script, err := os.ReadFile("testdata/train.py")
	if err == nil {
		err = os.WriteFile(filepath.Join(work, "train.py"), script, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	env := append(built.Environ(), "PATH="+path, "DDLEMU_DIR="+dir, "LD_LIBRARY_PATH="+built.Path(t, "softcuda", "lib")+
		":"+built.Path(t, "lib"),
		"PROGRAM="+program(t), "ID_FILE="+work+"/id", "READY_FILE="+work+"/ready")
	shell := func(line string) (*exec.Cmd, *bytes.Buffer) {
		cmd, out := exec.CommandContext(t.Context(), "sh", "-c", line), new(bytes.Buffer)
		cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr, cmd.WaitDelay = work, env, out, out, 5*time.Second
		return cmd, out
	}
	run := func(line, says string) {
		t.Helper()
		if cmd, out := shell(line); cmd.Run() != nil || !strings.Contains(out.String(), says) {
			t.Fatalf("%s: %v, want %q in\n%s", line, cmd.ProcessState, says, out)
		}
	}

	lines := jobsBlock(t, "you can also bring a fabric up and start jobs as you always do:")
	for i, want := range []string{"ddlemu up ", "NCCL_NET_PLUGIN=libgoemu.so torchrun --nproc-per-node 2 train.py",
		"ddlemu shape --bw 100Gbps --lat 5us", "ddlemu status", "ddlemu top", "ddlemu down"} {
		if i >= len(lines) || !strings.HasPrefix(strings.TrimSpace(lines[i]), want) {
			t.Fatalf("docs/jobs.md has %q, want %q in line %d", lines, want, i+1)
		}
	}
	run(lines[0], "NCCL_NET_PLUGIN")
	job, said := shell(lines[1])
	if err := job.Start(); err != nil {
		t.Fatal(err)
	}
	waitForPID(t, work+"/ready")
	run(lines[2], "100Gbps")
	for _, l := range links(t, dir) {
		if l.BandwidthBPS != 100e9 || l.LatencyNS != 5000 {
			t.Errorf("status after shape: %+v", l)
		}
	}
	if err := os.Remove(work + "/ready"); err != nil {
		t.Fatal(err)
	}
	if err := job.Wait(); err != nil {
		t.Fatalf("%s: %v:\n%s", lines[1], err, said)
	}
	// Each of 3 AllReduces of 4 MiB between 2 ranks sends 4 MiB in each direction.
	for _, l := range links(t, dir) {
		if l.Bytes < 12<<20 {
			t.Errorf("%s:%s carried %d bytes, want at least 12 MiB", l.From, l.To, l.Bytes)
		}
	}
	run(lines[3], "100Gbps")
	// this is no terminal
	if cmd, out := shell(lines[4]); cmd.Run() == nil || !strings.Contains(out.String(), "status --watch") {
		t.Errorf("%s: %v\n%s", lines[4], cmd.ProcessState, out)
	}
	run(lines[5], "")
}
