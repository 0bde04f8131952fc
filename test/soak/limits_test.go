// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"bufio"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ddlemu/ddlemu/test/built"
	"github.com/ddlemu/ddlemu/test/needs"
)

// limits are failures in which a job runs out of a resource.
var limits = []failure{
	{"no shared memory for rings", noMemory, "2.22", ""},
	{"no file descriptor left", noDescriptors, "2.29", ""},
	{"few file descriptors left", fewDescriptors, "", ""},
	{"a limit of file descriptors with which NCCL hangs", lowLimit, "2.29", ""},
	{"a full folder before the job", fullBefore, "2.29", "real"},
	{"a full folder under the job", fullUnder, "2.22", "real"},
}

// noMemory gives the ranks less memory than one ring needs.
func noMemory(t *testing.T, on system, _ uint64) {
	w := start(t, setup{on: on, profile: "eth10", ranks: 2, seed: 1, args: []string{"loop", "1", "65536"},
		env: []string{"DDLEMU_MEMORY=16K", "NCCL_DEBUG=WARN"}})
	w.finish(hang)
	told := false
	for i, p := range w.ranks {
		if p.status() == 0 {
			w.fatalf("rank %d ended with 0", i)
		}
		_, ok := p.printed("raise DDLEMU_MEMORY")
		told = told || ok
	}
	if !told {
		w.fatalf("no rank says what to raise")
	}
}

// withFree starts ranks that have only so many free descriptors: the program opens the others.
// The limit itself stays high, because poll fails for more entries than the limit.
func withFree(t *testing.T, on system, free int) *world {
	t.Helper()
	return start(t, setup{on: on, profile: "eth10", ranks: 2, seed: 1, args: []string{"loop", "0", "65536"},
		env:  []string{fmt.Sprintf("FREE=%d", free), "NCCL_DEBUG=WARN"},
		wrap: []string{"sh", "-c", `ulimit -n 256 && exec "$0" "$@"`}})
}

// noDescriptors leaves too few free descriptors for the plugin to start.
func noDescriptors(t *testing.T, on system, _ uint64) {
	w := withFree(t, on, 8)
	w.finish(hang)
	for i, p := range w.ranks {
		if _, ok := p.printed("too many open files: raise the limit (ulimit -n)"); !ok || p.status() == 0 {
			w.fatalf("rank %d ended with %d", i, p.status())
		}
	}
	withFree(t, on, 100).allRight(time.Minute)
}

// lowLimit allows fewer descriptors than NCCL polls at once.
func lowLimit(t *testing.T, on system, _ uint64) {
	w := start(t, setup{on: on, profile: "eth10", ranks: 2, seed: 1, args: []string{"loop", "0", "65536"},
		env: []string{"NCCL_DEBUG=WARN"}, wrap: []string{"sh", "-c", `ulimit -n 64 && exec "$0" "$@"`}})
	w.finish(hang)
	for i, p := range w.ranks {
		if _, ok := p.printed("64 open files, and NCCL hangs with fewer than 75: raise the limit"); !ok ||
			p.status() == 0 {
			w.fatalf("rank %d ended with %d", i, p.status())
		}
	}
}

// fewDescriptors leaves fewer and fewer free descriptors. Each job is right, or a rank that has
// too few says so. The other ranks may wait in NCCL's bootstrap, which does not check whether
// the peer lives: they are killed, as a launcher would. So are jobs in which the service thread
// of NCCL 2.29 finds no descriptor for a connection: it repeats its message for ever.
func fewDescriptors(t *testing.T, on system, _ uint64) {
	right, wrong := 0, 0
	for free := 40; free >= 12; free -= 4 {
		w := withFree(t, on, free)
		select {
		case <-w.anyFailure():
		case <-time.After(hang):
			if !acceptsForEver(w) {
				w.fatalf("%d descriptors: neither a right result nor an error", free)
			}
			t.Logf("%d descriptors: NCCL's service thread tries to accept for ever", free)
			for _, p := range w.ranks {
				p.kill()
			}
		}
		failed, told := false, false
		for _, p := range w.ranks {
			select {
			case <-p.ended:
			case <-time.After(promise):
				p.kill()
			}
			_, a := p.printed("oo many open files")
			_, b := p.printed("file descriptor")
			failed, told = failed || p.status() != 0, told || a || b
		}
		switch {
		case !failed:
			right++
		case told:
			wrong++
		default:
			w.fatalf("%d descriptors: an error that does not name them", free)
		}
	}
	if right == 0 || wrong == 0 {
		t.Errorf("%d jobs were right, %d had an error: want both", right, wrong)
	}
}

// acceptsForEver says whether the service thread of a rank is in that state.
func acceptsForEver(w *world) bool {
	for _, p := range w.ranks {
		if _, ok := p.printed("[Service thread] Accept failed Too many open files"); ok {
			return true
		}
	}
	return false
}

// small mounts a small file system over a folder of fabrics, in a new mount namespace, and returns
// the command that runs another command there.
func small(t *testing.T, dir, size string) []string {
	t.Helper()
	needs.Root(t, "a small file system")
	cmd := exec.Command("unshare", "--mount", "--propagation", "private", "sh", "-c",
		fmt.Sprintf(`mount -t tmpfs -o size=%s,mode=700 tmpfs "$DDLEMU_DIR" && echo mounted && exec cat`, size))
	cmd.Env = environment(dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("unshare: %v", err)
		}
	})
	if text, err := bufio.NewReader(out).ReadString('\n'); err != nil || text != "mounted\n" {
		t.Fatalf("unshare: %q %v", text, err)
	}
	return []string{"nsenter", fmt.Sprintf("--mount=/proc/%d/ns/mnt", cmd.Process.Pid)}
}

// inside runs a command in that mount namespace.
func inside(dir string, enter []string, words ...string) (string, error) {
	words = append(append([]string{}, enter...), words...)
	cmd := exec.Command(words[0], words[1:]...)
	cmd.Env = environment(dir)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// fullBefore has no space for a fabric: neither a command nor a rank can make one.
func fullBefore(t *testing.T, on system, _ uint64) {
	dir := folder(t)
	enter := small(t, dir, "64k")
	out, err := inside(dir, enter, built.Path(t, "bin", "ddlemu"), "up", "--profile", "eth10", "--no-measure")
	if err == nil || !strings.Contains(out, "no space left on device") {
		t.Errorf("ddlemu up: %v:\n%s", err, out)
	}
	w := start(t, setup{on: on, ranks: 2, seed: 1, args: []string{"loop", "1", "65536"}, dir: dir, wrap: enter,
		env: []string{"DDLEMU_FABRIC=", "DDLEMU_PROFILE=eth10"}})
	w.finish(hang)
	for i, p := range w.ranks {
		if _, ok := p.printed("no space left on device"); !ok || p.status() == 0 {
			w.fatalf("rank %d ended with %d", i, p.status())
		}
	}
}

// fullUnder fills the folder under a running job, which has all that it needs. A job
// that starts then needs nothing of what is full either.
func fullUnder(t *testing.T, on system, _ uint64) {
	dir := folder(t)
	enter := small(t, dir, "64m")
	if out, err := inside(dir, enter, built.Path(t, "bin", "ddlemu"), "up", "--profile", "eth10", "--nodes", "2",
		"--no-measure", "--name", "soak"); err != nil {
		t.Fatalf("%v:\n%s", err, out)
	}
	w := start(t, setup{on: on, ranks: 2, seed: 1, args: []string{"loop", "3", "65536"}, dir: dir, wrap: enter})
	w.await("running")
	out, err := inside(dir, enter, "dd", "if=/dev/zero", "of="+filepath.Join(dir, "filler"), "bs=64k")
	if err == nil || !strings.Contains(out, "No space left on device") {
		t.Fatalf("the folder is not full: %v:\n%s", err, out)
	}
	next := start(t, setup{on: on, ranks: 2, seed: 2, args: []string{"collectives", "allreduce", "100003", "1"},
		dir: dir, wrap: enter, env: []string{"DDLEMU_JOB=next"}})
	next.allRight(time.Minute)
	w.allRight(time.Minute)
	if out, err := inside(dir, enter, built.Path(t, "bin", "ddlemu"), "down", "soak"); err != nil {
		t.Errorf("%v:\n%s", err, out)
	}
}
