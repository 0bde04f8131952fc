// SPDX-License-Identifier: Apache-2.0

package fabriccmd

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/cli"
	"github.com/ddlemu/ddlemu/shaper/kernel/launch"
)

// SSHCommand is the name of the command, and of a link to ddlemu that is it.
const SSHCommand = "ssh"

// exitSSH is the exit status if the command could not be run, as of ssh.
const exitSSH = 255

// NewSSHCommand is `ddlemu ssh`.
func NewSSHCommand(g *cli.Global) *cobra.Command {
	return &cobra.Command{
		Use:   "ssh [flags] [USER@]NODE [COMMAND...]",
		Short: "Reach a node of a kernel fabric as ssh would",
		Long: `Replace ssh for launchers: run a command, or a login shell, on an emulated node. It needs root,
but no sshd and no keys. NODE is a name in the nodes' /etc/hosts, or an address.

Options of ssh are accepted, those of the connection without effect. Options that would run
something else are refused. Flags of ddlemu come first. The links ddlemu-ssh and ssh beside
ddlemu are the same command.

Exit status: that of the command; 255 if it could not be run, as with ssh.
Page: docs/kernel.md`,
		Example: `  ddlemu ssh node1 hostname
  ddlemu exec node0 -- mpirun --allow-run-as-root --hostfile hosts --mca plm_rsh_agent "ddlemu ssh" ./prog
  ddlemu exec node0 -- mpiexec.hydra -f hosts -launcher ssh -launcher-exec ddlemu-ssh ./prog`,
		DisableFlagParsing: true, // the flags are ssh's
		RunE: func(cmd *cobra.Command, args []string) error {
			args, help, err := ownFlags(g, args)
			if help {
				return cmd.Help()
			}
			if err == nil {
				err = runSSH(g, args)
			}
			return &cli.ExitError{Code: exitSSH, Err: err}
		},
	}
}

// ownFlags parses the flags of ddlemu at the beginning of args. ssh has no long flags.
func ownFlags(g *cli.Global, args []string) (rest []string, help bool, err error) {
	for len(args) > 0 && strings.HasPrefix(args[0], "--") && args[0] != "--" {
		name, value, given := strings.Cut(args[0][2:], "=")
		args = args[1:]
		if name == "help" {
			return args, true, nil
		}
		flag := map[string]*string{"fabric": &g.Fabric, "dir": &g.Dir, "owner": &g.Owner}[name]
		if flag == nil {
			return nil, false, cli.BadInput("unknown flag: --%s: see `ddlemu ssh --help`", name)
		}
		if !given {
			if len(args) == 0 {
				return nil, false, cli.BadInput("--%s needs a value", name)
			}
			value, args = args[0], args[1:]
		}
		*flag = value
	}
	return args, false, nil
}

// runSSH returns only if it fails.
func runSSH(g *cli.Global, args []string) error {
	if err := launch.EndBySignals(); err != nil {
		return err
	}
	line, err := launch.ParseSSH(args)
	if err != nil {
		return err
	}
	up, err := g.OpenKernel()
	if err != nil {
		return err
	}
	defer up.Close()
	e, err := entryOf(g, up, line.Host)
	if err != nil {
		return err
	}
	who, err := accountOf(line.User, e.owner)
	if err != nil {
		return err
	}
	if line.NoInput {
		if err := noInput(); err != nil {
			return err
		}
	}
	o := e.options(who)
	o.Dir = who.Home
	argv := []string{filepath.Base(who.Shell), "-c", line.Text()}
	if len(line.Command) == 0 {
		argv = []string{"-" + filepath.Base(who.Shell)}
	}
	return launch.Exec(o, who.Shell, argv, e.environment(launch.LoginEnvironment(who, os.Environ()), who))
}

// accountOf returns the user called name or, if name is "", the user with number uid.
func accountOf(name string, uid int) (launch.Account, error) {
	if name == "" {
		return launch.AccountByID(uid)
	}
	a, err := launch.AccountByName(name)
	if _, ok := errors.AsType[user.UnknownUserError](err); ok {
		return a, cli.BadInput("there is no user %q", name)
	}
	return a, err
}

// noInput makes standard input /dev/null.
func noInput() error {
	null, err := os.Open(os.DevNull)
	if err != nil {
		return err
	}
	defer null.Close()
	if err := syscall.Dup3(int(null.Fd()), 0, 0); err != nil {
		return fmt.Errorf("make standard input %s: %w", os.DevNull, err)
	}
	return nil
}
