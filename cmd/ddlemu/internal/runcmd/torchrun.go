// SPDX-License-Identifier: Apache-2.0

package runcmd

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/cli"
)

// explainTorchrun says what to use if args is a torchrun that cannot start a rank: the torchrun of torch 1 with Python
// 3.11 or later, as Debian 12 has it. There an enumeration no longer lists its flag of value zero, which torchrun looks
// for.
func explainTorchrun(ctx context.Context, g *cli.Global, args []string) {
	python := pythonOf(args)
	if python == "" {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	const program = "import sys, importlib.metadata as m; print(m.version('torch') if sys.version_info >= (3, 11) " +
		"else '')"
	out, err := exec.CommandContext(ctx, python, "-c", program).Output()
	if version := strings.TrimSpace(string(out)); err == nil && strings.HasPrefix(version, "1.") {
		fmt.Fprintf(g.Stderr, "ddlemu: torchrun of torch %s does not work with this version of Python: "+
			"use `%s -m ddlemu_torch.launch --nproc-per-node N PROGRAM`\n", version, python)
	}
}

// pythonOf returns the interpreter that runs torchrun, or "" if args is not torchrun.
func pythonOf(args []string) string {
	if i := slices.Index(args, "-m"); i > 0 && i+1 < len(args) && args[i+1] == "torch.distributed.run" {
		return args[0]
	}
	if filepath.Base(args[0]) != "torchrun" {
		return ""
	}
	path, err := exec.LookPath(args[0])
	if err != nil {
		return ""
	}
	file, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer file.Close()
	line, _ := bufio.NewReader(file).ReadString('\n') // without #! it is no script, and no interpreter is found
	python, found := strings.CutPrefix(strings.TrimSpace(line), "#!")
	if !found || strings.Contains(python, " ") {
		return ""
	}
	return python
}

// torchrun is a command line of torchrun, or of a launcher with its flags.
type torchrun struct {
	before   []string // with the launcher's name and flags
	after    []string // the program and its arguments
	given    map[string]string
	explicit bool // the user says how many agents there are, or which one this is
	perNode  string
	dashes   bool // names of flags have dashes
}

// launchers are the modules that start ranks as torchrun does.
var launchers = []string{"torch.distributed.run", "torch.distributed.launch", "ddlemu_torch.launch"}

// wrappers are programs that run their arguments as a command, unchanged.
var wrappers = []string{"env", "timeout", "nice", "ionice", "nohup", "setsid", "stdbuf", "taskset", "numactl"}

// switches are the flags of these launchers that have no value.
var switches = []string{"standalone", "module", "m", "no-python", "run-path", "use-env", "help", "h",
	"virtual-local-rank"}

// parseTorchrun returns what args say, nil if they are not torchrun, which may be behind `env`, `timeout` and such.
func parseTorchrun(args []string, getenv func(string) string) *torchrun {
	at := flagsOfTorchrun(args)
	if at == 0 {
		return nil
	}
	t := &torchrun{given: map[string]string{}, dashes: strings.Contains(args[at-1], "ddlemu_torch")}
	for at < len(args) && strings.HasPrefix(args[at], "-") && args[at] != "-" && args[at] != "--" {
		name, value, inline := strings.Cut(strings.TrimLeft(args[at], "-"), "=")
		name = fullName(strings.ReplaceAll(name, "_", "-"))
		at++
		if !inline && !slices.Contains(switches, name) && at < len(args) {
			value = args[at]
			at++
		}
		t.given[name] = value
	}
	t.before, t.after = args[:at:at], args[at:]
	for _, name := range []string{"nnodes", "node-rank", "standalone"} {
		_, given := t.given[name]
		t.explicit = t.explicit || given || getenv("PET_"+strings.ToUpper(strings.ReplaceAll(name, "-", "_"))) != ""
	}
	t.perNode = "1"
	if text := getenv("PET_NPROC_PER_NODE"); text != "" {
		t.perNode = text
	}
	if text, given := t.given["nproc-per-node"]; given {
		t.perNode = text
	}
	return t
}

// flagsOfTorchrun is the index in args behind the name of the launcher, 0 if there is none.
func flagsOfTorchrun(args []string) int {
	for i := range args {
		name := filepath.Base(args[i])
		switch {
		case name == "torchrun":
			return i + 1
		case strings.HasPrefix(name, "python"):
			return flagsOfModule(args, i+1)
		case i == 0 && !slices.Contains(wrappers, name):
			return 0
		}
	}
	return 0
}

// flagsOfModule is the index in args behind the launcher that Python runs, whose own flags begin at index at; 0 if it
// runs something else.
func flagsOfModule(args []string, at int) int {
	for ; at < len(args); at++ {
		switch arg := args[at]; {
		case arg == "-m" && at+1 < len(args) && slices.Contains(launchers, args[at+1]):
			return at + 2
		case arg == "-m" || arg == "-c":
			return 0
		case arg == "-W" || arg == "-X":
			at++ // its value
		case strings.HasPrefix(arg, "-"):
		case filepath.Base(arg) == "torchrun" || strings.HasSuffix(arg, "ddlemu_torch/launch.py"):
			return at + 1
		default:
			return 0
		}
	}
	return 0
}

// fullName completes the beginning of a flag's name, as Python's argparse does.
func fullName(name string) string {
	for _, full := range []string{"nnodes", "nproc-per-node", "node-rank", "standalone", "max-restarts", "master-addr",
		"master-port"} {
		if len(name) > 1 && strings.HasPrefix(full, name) {
			return full
		}
	}
	return name
}

// ranks is the number of ranks of each agent, 0 if it is not a number: torchrun counts the GPUs or the cores then.
func (t *torchrun) ranks() int {
	n, err := strconv.Atoi(t.perNode)
	if err != nil || n < 1 {
		return 0
	}
	return n
}

// agent is the command line for node n of nodes, with a rendezvous at node 0, whose address is master, unless the user
// gave one. Agents that may start their ranks again need one at which they learn that others have.
func (t *torchrun) agent(n, nodes int, master string, port int) []string {
	flags := []string{"--nnodes", strconv.Itoa(nodes)}
	add := func(name, value string) {
		if _, given := t.given[name]; !given {
			flags = append(flags, "--"+t.spell(name), value)
		}
	}
	add("node-rank", strconv.Itoa(n))
	endpoint, named := t.given["rdzv-endpoint"]
	_, hasBackend := t.given["rdzv-backend"]
	restarts := t.given["max-restarts"]
	switch {
	case named && !strings.HasSuffix(endpoint, ":0"): // with port 0 each agent would take one of its own
	case named || hasBackend || restarts != "" && restarts != "0":
		flags = append(flags, "--"+t.spell("rdzv-endpoint"), fmt.Sprintf("%s:%d", master, port))
		add("rdzv-backend", "c10d")
		add("rdzv-id", fmt.Sprintf("ddlemu-%d", port))
		if t.given["rdzv-backend"] == "" || t.given["rdzv-backend"] == "c10d" {
			add("rdzv-conf", fmt.Sprintf("is_host=%v", n == 0)) // else all try to be, and print that they cannot
		}
	default:
		add("master-addr", master)
		add("master-port", strconv.Itoa(port))
	}
	return slices.Concat(t.before, flags, t.after)
}

// spell is the name of a flag as the launcher knows it: torch 1 has only names with underscores.
func (t *torchrun) spell(name string) string {
	if t.dashes {
		return name
	}
	return strings.ReplaceAll(name, "-", "_")
}
