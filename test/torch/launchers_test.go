// SPDX-License-Identifier: Apache-2.0

package torch

import (
	"bufio"
	"bytes"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"

	"github.com/ddlemu/ddlemu/test/built"
	"github.com/ddlemu/ddlemu/test/needs"
	"github.com/ddlemu/ddlemu/test/world"
)

// goodSum starts two ranks under `ddlemu run` and checks their sum and that traffic crossed a link.
func goodSum(t *testing.T, flags []string, command ...string) {
	t.Helper()
	base := []string{built.Path(t, "bin", "ddlemu"), "run", "--profile", "eth10", "--nodes", "2"}
	o := start(t, slices.Concat(base, ncclFlag(), flags, []string{"--"}, command))
	for _, want := range []string{"rank 0 sum 3.0\n", "rank 1 sum 3.0\n"} {
		if !strings.Contains(o.Stdout, want) {
			t.Errorf("no %q", want)
		}
	}
	if o.Exit != 0 || !strings.Contains(o.Stderr, "\nnode0:node1 ") || t.Failed() {
		t.Errorf("exit status %d\n%s%s", o.Exit, o.Stdout, o.Stderr)
	}
}

// torchrun starts the ranks. That of Debian 12 cannot, and `ddlemu run` says what to use.
func TestTorchrun(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, python string) {
		torchrun := besides(t, python, "torchrun")
		command := []string{torchrun, "--nproc_per_node", "1", world.Absolute(t, "testdata", "installed.py")}
		broken := output(t, python, "-c",
			"import sys, torch; print(sys.version_info >= (3, 11) and torch.__version__[:2] == '1.')")
		if strings.TrimSpace(broken) == "False" {
			goodSum(t, virtual, command...)
			// One agent for both nodes.
			goodSum(t, virtual, torchrun, "--standalone", "--nproc_per_node", "2", command[len(command)-1])
			return
		}
		o := start(t,
			slices.Concat([]string{built.Path(t, "bin", "ddlemu"), "run", "--profile", "eth10", "--nodes", "2", "--"},
				command))
		if o.Exit == 0 || !strings.Contains(o.Stderr, " -m ddlemu_torch.launch --nproc-per-node N PROGRAM`\n") {
			t.Errorf("exit status %d\n%s%s", o.Exit, o.Stdout, o.Stderr)
		}
	})
}

// The package's own launcher starts the ranks, once for each node.
func TestLaunch(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, python string) {
		goodSum(t, virtual, python, "-m", "ddlemu_torch.launch", "--nproc-per-node", "1",
			world.Absolute(t, "testdata", "installed.py"))
	})
}

// When a rank fails, the launcher ends the others, and its status is that of the rank.
func TestLaunchFailure(t *testing.T) {
	o := start(t, append(launcher(t, "python3", 2), world.Absolute(t, "testdata", "launched.py"), "fail"))
	lines := strings.Split(o.Stdout, "\n")
	slices.Sort(lines)
	if want := []string{"", "rank 0 got SIGTERM", "rank 0 ready", "rank 1 ready"}; o.Exit != 7 ||
		!slices.Equal(lines, want) {
		t.Errorf("exit status %d\n%s%s", o.Exit, o.Stdout, o.Stderr)
	}
}

// The store's port is below those that the kernel gives to sockets which name none: one of these can be in use when
// rank 0 listens.
func TestLaunchPort(t *testing.T) {
	o := start(t, append(launcher(t, "python3", 1), world.Absolute(t, "testdata", "launched.py"), "port"))
	content, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	if err != nil {
		t.Fatal(err)
	}
	first, err := strconv.Atoi(strings.Fields(string(content))[0])
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(strings.TrimSpace(strings.TrimPrefix(o.Stdout, "rank 0 ")))
	if err != nil || port >= first || port < first/2 {
		t.Errorf("port %d, %v, the kernel's begin with %d\n%s%s", port, err, first, o.Stdout, o.Stderr)
	}
}

// The launcher passes a signal on to all ranks, also if it is started by `ddlemu run`, which got the signal.
func TestLaunchSignal(t *testing.T) {
	ranks := append(launcher(t, "python3", 2), world.Absolute(t, "testdata", "launched.py"), "sleep")
	for name, tc := range map[string]struct {
		run    bool // by ddlemu run
		signal syscall.Signal
	}{
		"SIGTERM":       {false, syscall.SIGTERM},
		"SIGINT":        {false, syscall.SIGINT},
		"SIGINT of run": {true, syscall.SIGINT},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), "python3", ranks[1:]...)
			if tc.run {
				cmd = exec.CommandContext(t.Context(), built.Path(t, "bin", "ddlemu"),
					append(ddlemuRun(t)[1:], ranks...)...)
			}
			cmd.Env = environment(t)
			lines, stderr := signalReady(t, cmd, func() { _ = cmd.Process.Signal(tc.signal) })
			got := "got " + unix.SignalName(tc.signal)
			want := []string{"rank 0 " + got, "rank 0 ready", "rank 1 " + got, "rank 1 ready"}
			if !slices.Equal(lines, want) || cmd.ProcessState.ExitCode() != 5 {
				t.Errorf("exit status %d, %q\n%s", cmd.ProcessState.ExitCode(), lines, stderr)
			}
		})
	}
}

// An interrupt of the terminal reaches each rank once, although the launcher and `ddlemu run` get it too.
func TestLaunchInTerminal(t *testing.T) {
	ranks := append(launcher(t, "python3", 2), world.Absolute(t, "testdata", "launched.py"), "count")
	for name, command := range map[string][]string{"alone": ranks, "by run": slices.Concat(ddlemuRun(t), ranks)} {
		t.Run(name, func(t *testing.T) {
			keys, terminal, err := pty.Open()
			if err != nil {
				t.Fatal(err)
			}
			defer keys.Close()
			defer terminal.Close()
			cmd := exec.CommandContext(t.Context(), command[0], command[1:]...)
			cmd.Env, cmd.Stdin = environment(t), terminal
			cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
			lines, stderr := signalReady(t, cmd, func() { _, _ = keys.Write([]byte{3}) }) // Ctrl-C
			if want := []string{"rank 0 got 1", "rank 0 ready", "rank 1 got 1", "rank 1 ready"}; !slices.Equal(lines,
				want) {
				t.Errorf("exit status %d, %q\n%s", cmd.ProcessState.ExitCode(), lines, stderr)
			}
		})
	}
}

// ddlemuRun begins a command that runs a program on two nodes.
func ddlemuRun(t *testing.T) []string {
	t.Helper()
	return []string{built.Path(t, "bin", "ddlemu"), "run", "--profile", "eth10", "--nodes", "2", "--clock", "virtual",
		"--"}
}

// signalReady starts a command and calls signal when two ranks have said that they are ready. It returns what the
// command printed: the lines of standard output in order of the alphabet.
func signalReady(t *testing.T, cmd *exec.Cmd, signal func()) (lines []string, stderr string) {
	t.Helper()
	var text bytes.Buffer
	cmd.Stderr, cmd.WaitDelay = &text, 5*time.Second
	stdout, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	overdue := time.AfterFunc(30*time.Second, func() { _ = cmd.Process.Kill() })
	defer overdue.Stop()
	for scanner := bufio.NewScanner(stdout); scanner.Scan(); {
		if lines = append(lines, scanner.Text()); len(lines) == 2 {
			signal()
		}
	}
	_ = cmd.Wait() // its status is the caller's to check
	slices.Sort(lines)
	return lines, text.String()
}

// Bad arguments of the launcher.
func TestLaunchArguments(t *testing.T) {
	for args, want := range map[string]string{
		"--nproc-per-node 0 x.py":         "--nproc-per-node 0: at least 1",
		"--nnodes 2 --node-rank 2 x.py":   "--node-rank 2: must be 0 to 1, because --nnodes is 2",
		"--nproc-per-node 2":              "the following arguments are required: PROGRAM",
		"--nproc-per-node two program.py": "invalid int value: 'two'",
	} {
		command := append(launcher(t, "python3", 1)[:2], strings.Fields(args)...)
		if o := start(t, command); o.Exit != 2 || !strings.Contains(o.Stderr, want) {
			t.Errorf("%s: exit status %d, %s", args, o.Exit, o.Stderr)
		}
	}
}

// Without a launcher: processes that the program starts itself, by spawn, which meet by a file or by TCP, or by fork.
func TestSpawn(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, python string) {
		for _, how := range []string{"file", "tcp", "fork"} {
			t.Run(how,
				func(t *testing.T) { goodSum(t, virtual, python, world.Absolute(t, "testdata", "spawn.py"), how) })
		}
	})
}

// Open MPI's launcher.
func TestMPI(t *testing.T) {
	t.Parallel()
	mpirun := needs.Optional(t, "mpirun.openmpi")
	each(t, func(t *testing.T, python string) {
		command := []string{mpirun, "--oversubscribe", "-n", "2", python, world.Absolute(t, "testdata", "spawn.py"),
			"mpi", strconv.Itoa(freePort(t))}
		if os.Geteuid() == 0 {
			command = slices.Insert(command, 1, "--allow-run-as-root")
		}
		goodSum(t, virtual, command...)
	})
}

// A launcher on each node of a kernel fabric.
func TestPerNode(t *testing.T) {
	needs.Root(t, "a fabric of the kernel datapath")
	each(t, func(t *testing.T, python string) {
		goodSum(t, []string{"--set", "datapath=kernel", "--per-node"}, python, "-m", "ddlemu_torch.launch", "--nnodes",
			"{nodes}",
			"--node-rank", "{node}", "--master-addr", "{master}", world.Absolute(t, "testdata", "installed.py"))
	})
}

// besides returns a program of an interpreter's environment.
func besides(t *testing.T, python, name string) string {
	t.Helper()
	path, err := exec.LookPath(python)
	if err == nil {
		path = filepath.Join(filepath.Dir(path), name)
		_, err = os.Stat(path)
	}
	if err != nil {
		t.Skipf("SKIPPED: no %s beside %s: %v", name, python, err)
	}
	return path
}

func freePort(t *testing.T) int {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port
}

// `ddlemu up` prints the variables that a job needs, those of PyTorch too.
func TestUp(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, python string) {
		const script = `set -e; eval "$("$0" up --profile loopback --nodes 2 --no-measure | grep ^export)"; "$@"; "$0" down`
		command := slices.Concat([]string{"sh", "-c", script, built.Path(t, "bin", "ddlemu")}, launcher(t, python, 2))
		o := start(t, append(command, world.Absolute(t, "testdata", "installed.py")))
		for _, want := range []string{"rank 0 sum 3.0\n", "rank 1 sum 3.0\n"} {
			if o.Exit != 0 || !strings.Contains(o.Stdout, want) {
				t.Errorf("exit status %d\n%s%s", o.Exit, o.Stdout, o.Stderr)
			}
		}
	})
}

// A launcher that names the GPUs of each node does not hide the ranks' software GPUs.
func TestVisibleDevices(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, python string) {
		job{python: python, env: []string{"CUDA_VISIBLE_DEVICES=0"}}.good(t, "installed.py")
	})
}
