// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ddlemu/ddlemu/test/built"
)

// How many commands are killed: killsEnv, or this many.
const (
	killsEnv   = "SOAK_KILLS"
	fewerKills = 6
)

// Promises of docs/failures.md.
const (
	endsWithin    = 5 * time.Second  // no process of the job is left after a kill
	removedWithin = 20 * time.Second // from then on gc finds that nobody holds the fabric
)

// kill is one job of `ddlemu bench` or `ddlemu run`, and which of its processes is killed when.
type kill struct {
	command  string // bench or run
	clock    string // real, virtual or kernel
	perNode  int    // ranks per node, on two nodes
	victim   string // rank, command or daemon
	after    time.Duration
	instance string // the value of a variable in the environment of all its processes
	dir      string
}

func (k kill) String() string {
	return fmt.Sprintf("%s of %s, clock %s, %d ranks per node, after %v", k.victim, k.command, k.clock, k.perNode,
		k.after)
}

// drawKill draws a kill. Two cores carry few ranks that poll: on the real clock there are four at most.
func drawKill(r *rand.Rand) kill {
	k := kill{
		command: []string{"bench", "run"}[r.IntN(2)], clock: []string{"real", "virtual", "kernel"}[r.IntN(3)],
		perNode: 1 + r.IntN(3),
		victim:  []string{"rank", "command"}[r.IntN(2)], after: time.Duration(r.IntN(4000)) * time.Millisecond,
	}
	switch {
	case os.Getuid() != 0 && k.clock == "kernel":
		k.clock = "real"
	case k.clock == "kernel" && r.IntN(3) == 0:
		k.victim = "daemon"
	}
	if k.clock != "virtual" {
		k.perNode = min(k.perNode, 2)
	}
	return k
}

// args are the arguments of ddlemu. The job would take minutes.
func (k kill) args(t *testing.T) []string {
	all := []string{k.command, "--profile", "eth10", "--nodes", "2"}
	switch k.clock {
	case "kernel":
		all = append(all, "--set", "datapath=kernel", "--set", "time_scale=8")
	case "real":
		all = append(all, "--set", "time_scale=8")
	default:
		all = append(all, "--clock", "virtual")
	}
	ranks := strconv.Itoa(2 * k.perNode)
	if k.command == "bench" {
		return append(slices.Insert(all, 1, "allreduce"), "--ranks", ranks, "-b", "1M", "-e", "1M", "-n", "200", "-N",
			"100000")
	}
	// As launchers do, it ends the other ranks when one fails: NCCL's bootstrap may wait for ever for a dead rank.
	script := `id=$1 program=$2 ranks=$3 pids=
for RANK in $(seq 0 $((ranks - 1))); do
	RANK=$RANK WORLD_SIZE=$ranks ID_FILE=$id "$program" loop 600 65536 & pids="$pids $!"
done
for pid in $pids; do wait -n || { sleep 2; kill -9 $pids; exit 1; }; done`
	return append(all, "--set", "gpus_per_node="+strconv.Itoa(k.perNode), "--soft-cuda", "--", "bash", "-c", script, "bash",
		filepath.Join(t.TempDir(), "id"), program(t), ranks)
}

// processes are those of the job that have not ended.
func (k kill) processes() []process {
	var out []process
	folders, _ := filepath.Glob("/proc/[0-9]*")
	for _, folder := range folders {
		environ, err := os.ReadFile(folder + "/environ")
		if err != nil || !bytes.Contains(environ, []byte("SOAK_INSTANCE="+k.instance+"\x00")) {
			continue // a zombie has none
		}
		line, _ := os.ReadFile(folder + "/cmdline")
		pid, _ := strconv.Atoi(filepath.Base(folder))
		out = append(out, process{pid, strings.Split(strings.TrimSuffix(string(line), "\x00"), "\x00")})
	}
	return out
}

type process struct {
	pid  int
	args []string
}

// is reports whether p is a victim of this kind.
func (p process) is(victim string) bool {
	switch program := filepath.Base(p.args[0]); victim {
	case "rank":
		return program == "soak" || program == "ddlemu-rank"
	case "daemon":
		return program == "ddlemu" && slices.Contains(p.args, "daemon")
	}
	return false
}

// Jobs lose a process at a random moment by SIGKILL: a rank, the command that started the job, or the daemon of the
// kernel datapath. Then no process is left, and gc leaves nothing.
func TestRandomKills(t *testing.T) {
	kills := fewerKills
	if text := os.Getenv(killsEnv); text != "" {
		var err error
		if kills, err = strconv.Atoi(text); err != nil || kills < 1 {
			t.Fatalf("%s=%s: give a number above 0", killsEnv, text)
		}
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	for i := range kills {
		k := drawKill(r)
		k.instance = fmt.Sprintf("%d-%d", os.Getpid(), i)
		t.Run(k.String(), func(t *testing.T) {
			t.Parallel()
			k.happen(t)
		})
	}
}

func (k kill) happen(t *testing.T) {
	dir, err := os.MkdirTemp("/dev/shm", "ddlemu-soak-")
	if err != nil {
		t.Fatal(err)
	}
	k.dir = dir
	defer os.RemoveAll(dir)
	args := k.args(t)
	cmd := exec.Command(built.Path(t, "bin", "ddlemu"), args...)
	cmd.Env = append(environment(dir), "SOAK_INSTANCE="+k.instance)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	out, err := os.CreateTemp(t.TempDir(), "output")
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	cmd.Stdout, cmd.Stderr = out, out // a file: Wait does not wait for those who still have it
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	defer func() {
		for _, p := range k.processes() {
			t.Errorf("is left: process %d: %q", p.pid, p.args)
			syscall.Kill(p.pid, syscall.SIGKILL)
		}
		if t.Failed() {
			b, _ := os.ReadFile(out.Name())
			t.Logf("ddlemu %q printed\n%s", args, b[max(0, len(b)-4000):])
		}
	}()
	time.Sleep(k.after)
	if !k.strike(t, cmd.Process.Pid, ended) {
		return
	}
	if !within(endsWithin, func() bool { return len(k.processes()) == 0 }) {
		t.Errorf("%v after the kill:", endsWithin)
		return
	}
	k.collect(t)
}

// strike kills the victim, once there is one. It returns false if the job had ended by then.
func (k kill) strike(t *testing.T, command int, ended chan error) bool {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		select {
		case err := <-ended:
			t.Errorf("the job ended before it was killed: %v", err)
			return false
		default:
		}
		victims := []int{command}
		if k.victim != "command" {
			victims = nil
			for _, p := range k.processes() {
				if p.is(k.victim) {
					victims = append(victims, p.pid)
				}
			}
		}
		if len(victims) > 0 {
			if err := syscall.Kill(victims[rand.IntN(len(victims))], syscall.SIGKILL); err != nil {
				t.Errorf("kill %s: %v", k.victim, err)
			}
			return true
		}
		if time.Now().After(end) {
			t.Errorf("no %s after 30 s", k.victim)
			return true
		}
	}
}

// collect lets gc remove what the job has left.
func (k kill) collect(t *testing.T) {
	t.Helper()
	text := ""
	removed := within(removedWithin, func() bool {
		out, err := command(k.dir, "gc")
		if text = out; err != nil {
			text += err.Error()
			return false
		}
		files, err := os.ReadDir(k.dir)
		return err == nil &&
			!slices.ContainsFunc(files, func(e os.DirEntry) bool { return !strings.HasSuffix(e.Name(), ".lock") })
	})
	if !removed {
		files, _ := os.ReadDir(k.dir)
		t.Errorf("gc leaves %v; it printed\n%s", files, text)
	}
}

// within waits until done, for this long at most.
func within(limit time.Duration, done func() bool) bool {
	for end := time.Now().Add(limit); !done(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			return false
		}
	}
	return true
}
