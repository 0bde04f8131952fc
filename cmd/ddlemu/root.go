// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/user"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/shaper/kernel/launch"
	"github.com/ddlemu/ddlemu/shaper/run/job"
)

// Environment variables of all commands.
const (
	dirEnv    = job.DirEnv
	fabricEnv = job.FabricEnv
	sudoEnv   = "SUDO_UID"
)

// global is what all commands share: common flags, and input, output and environment,
// which tests replace.
type global struct {
	Dir    string // folder of fabrics; empty for DDLEMU_DIR or the default
	Owner  string // the user who owns the fabrics; empty for SUDO_UID or the caller
	Fabric string // the fabric's name; empty for DDLEMU_FABRIC or the only one
	JSON   bool
	// Verbose prints all reasons for INVALID, not only the worst ones.
	Verbose bool
	Quiet   bool // no progress

	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Getenv         func(string) string
	Environ        func() []string
	told           []string // by tell
}

// addFabricFlag adds --fabric to a command that works on a fabric that is up.
func (g *global) addFabricFlag(fs *pflag.FlagSet) {
	fs.StringVar(&g.Fabric, "fabric", "", "`name` of the fabric (default: $"+fabricEnv+", else the only one that is up)")
}

// addJSONFlag adds --json to a command that prints data.
func (g *global) addJSONFlag(fs *pflag.FlagSet) {
	fs.BoolVar(&g.JSON, "json", false, "print JSON, errors included")
}

// verboseFlag shows all reasons for INVALID.
const verboseFlag = "--verbose"

// addVerboseFlag adds --verbose to a command that prints reasons for INVALID.
func (g *global) addVerboseFlag(fs *pflag.FlagSet) {
	fs.BoolVar(&g.Verbose, strings.TrimPrefix(verboseFlag, "--"), false, "print all reasons for INVALID, not only the worst three links or rows")
}

// more is the option that shows reasons which are not printed; "" if all are.
func (g *global) more() string {
	if g.Verbose {
		return ""
	}
	return verboseFlag
}

// printJSON writes v to standard output as JSON.
func (g *global) printJSON(v any) error {
	e := json.NewEncoder(g.Stdout)
	e.SetIndent("", "  ")
	if err := e.Encode(v); err != nil {
		return fmt.Errorf("write JSON: %w", err)
	}
	return nil
}

// warn writes a warning to standard error.
func (g *global) warn(format string, args ...any) {
	fmt.Fprintf(g.Stderr, "ddlemu: warning: "+format+"\n", args...)
}

// uid is the user who owns the fabrics: --owner, under sudo the user who called it, else
// the caller.
func (g *global) uid() (int, error) {
	me := os.Getuid()
	if g.Owner == "" {
		if text := g.Getenv(sudoEnv); text != "" && me == 0 {
			uid, err := strconv.ParseUint(text, 10, 31)
			if err != nil {
				return 0, badInput("%s: %q is not a user number: unset it, or give --owner", sudoEnv, text)
			}
			return int(uid), nil
		}
		return me, nil
	}
	uid, err := strconv.ParseUint(g.Owner, 10, 31)
	if err != nil {
		u, err := user.Lookup(g.Owner)
		if err != nil {
			return 0, badInput("--owner: there is no user %q: give a name or a number", g.Owner)
		}
		// On Linux a user's id is a number.
		uid, _ = strconv.ParseUint(u.Uid, 10, 31)
	}
	if me != 0 && int(uid) != me {
		return 0, badInput("--owner: only root can work on the fabrics of user %d: use sudo", uid)
	}
	return int(uid), nil
}

// credential is the user that a job's programs run as, nil for this process's user. Root
// may work on the fabrics of another user; jobs on them run as that user.
func (g *global) credential() (*syscall.Credential, error) {
	uid, err := g.uid()
	if err != nil || uid == os.Getuid() {
		return nil, err
	}
	who, err := launch.AccountByID(uid)
	if err != nil {
		return nil, err
	}
	c := &syscall.Credential{Uid: uint32(who.UID), Gid: uint32(who.GID)}
	for _, gid := range who.Groups {
		c.Groups = append(c.Groups, uint32(gid))
	}
	return c, nil
}

func newRootCommand(g *global) *cobra.Command {
	root := &cobra.Command{
		Use:   "ddlemu",
		Short: "Run NCCL on a network that you do not have",
		Long: `ddlemu makes one machine behave like a cluster. NCCL loads its net plugin
libgoemu.so, and every byte between two emulated nodes crosses an emulated link
with the bandwidth, latency, jitter and loss of a fabric. Each run ends with a
verdict: whether this host really kept to these figures.

Bandwidths are bits per second (100Gbps, 25Gbit; 12.5GB/s for bytes), latencies are Go
durations (5us, 1.2ms), and sizes are as in nccl-tests (8, 64K, 1G).

` + exitHelp,
		Example: `  # what NCCL would do on 400 Gb/s InfiniBand
  ddlemu bench allreduce --profile ndr400 --ranks 2

  # a fabric for any job that loads the plugin
  ddlemu up --profile eth10 --nodes 2
  NCCL_NET_PLUGIN=libgoemu.so torchrun --nproc-per-node 2 train.py
  ddlemu shape --bw 1Gbps --lat 1ms
  ddlemu down`,
		Version:       version(),
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          knownCommand,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetVersionTemplate("ddlemu {{.Version}}\n")
	root.SetFlagErrorFunc(flagError)
	root.SetIn(g.Stdin)
	root.SetOut(g.Stdout)
	root.SetErr(g.Stderr)
	fs := root.PersistentFlags()
	fs.StringVar(&g.Dir, "dir", "", "`folder` of the fabrics (default: $"+dirEnv+", else /dev/shm/ddlemu-UID)")
	fs.StringVar(&g.Owner, "owner", "", "`user` who owns the fabrics; only for root (default: under sudo, the user who called it)")
	root.AddCommand(commands(g)...)
	onceOnly(root)
	acceptOtherLetter(root)
	return root
}

// commands are all commands, in the order of a user's work.
func commands(g *global) []*cobra.Command {
	return []*cobra.Command{
		newProfilesCommand(g),
		newUpCommand(g),
		newDownCommand(g),
		newShapeCommand(g),
		newFabricCommand(g),
		newStatusCommand(g),
		newTopCommand(g),
		newGCCommand(g),
		newDoctorCommand(g),
		newRunCommand(g),
		newBenchCommand(g),
		newRecordCommand(g),
		newReplayCommand(g),
		newExpectCommand(g),
		newWorkloadCommand(g),
		newValidateCommand(g),
		newVerifyCommand(g),
		newScheduleCommand(g),
		newMessagesCommand(g), newWhyCommand(g), newDiffCommand(g), newWhatIfCommand(g), newPendingCommand(g),
		newTraceCommand(g), newCaptureCommand(g), newExtcapCommand(g), newReportCommand(g), newServeCommand(g), newMetricsCommand(g),
		newExecCommand(g),
		newSSHCommand(g),
		newHostfileCommand(g),
		newDevCommand(g),
		newDaemonCommand(g),
		newGuardCommand(g),
		newVersionCommand(g),
		newManCommand(),
	}
}

// knownCommand refuses a command that does not exist, and lists similar ones.
func knownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	name := args[0]
	var names []string
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			names = append(names, c.Name())
		}
	}
	if near := configs.Nearest(name, names); len(near) > 0 {
		return badInput("%q is not a command: did you mean %s?", name, strings.Join(near, " or "))
	}
	return badInput("%q is not a command: there are %s", name, strings.Join(names, ", "))
}
