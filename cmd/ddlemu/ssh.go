// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/ddlemu/ddlemu/shaper/job"
	"github.com/ddlemu/ddlemu/shaper/kernel/launch"
)

const sshCommand = "ssh"

// exitSSH is ssh's own exit status: it could not run the command.
const exitSSH = 255

func newSSHCommand(g *global) *cobra.Command {
	return &cobra.Command{
		Use:   "ssh [flags] [USER@]NODE [COMMAND...]",
		Short: "Reach a node of a kernel fabric as ssh would",
		Long: `A stand-in for ssh, for launchers: runs a command on an emulated node by the user's
shell, in the home folder; without a command, a login shell. There is no sshd and no
key. It works on the host and on the nodes, as root.

NODE is a name in the nodes' /etc/hosts, or an address. ssh's options are taken; those
of the connection itself mean nothing here, and those that would run something else
are refused. Flags of ddlemu (--fabric, --dir, --owner) come first.

The environment is a new one, as ssh's, with PATH, LD_LIBRARY_PATH, LANG, LC_*, TERM
and TZ of here. Anything else is for the launcher to pass on, as between real nodes.
DDLEMU_NODE, CUDA_VISIBLE_DEVICES and what leads to the fabric are set.

The link ddlemu-ssh beside ddlemu is the same, for launchers that take one path. So
is a link called ssh.

EXIT STATUS
===========

That of the command. 255, as ssh has it, if it could not be run.
`,
		Example: `  ddlemu ssh node1 hostname
  ddlemu exec node0 -- mpirun --allow-run-as-root --hostfile hosts --mca plm_rsh_agent "ddlemu ssh" ./prog
  ddlemu exec node0 -- mpiexec.hydra -f hosts -launcher ssh -launcher-exec ddlemu-ssh ./prog`,
		DisableFlagParsing: true, // they are ssh's
		RunE: func(cmd *cobra.Command, args []string) error {
			args, help, err := g.ownFlags(args)
			if help {
				return cmd.Help()
			}
			if err == nil {
				err = runSSH(cmd.Context(), g, args)
			}
			return &exitError{Code: exitSSH, Err: err}
		},
	}
}

// ownFlags takes the flags of ddlemu from the front of args. ssh has no long ones.
func (g *global) ownFlags(args []string) (rest []string, help bool, err error) {
	for len(args) > 0 && strings.HasPrefix(args[0], "--") && args[0] != "--" {
		name, value, given := strings.Cut(args[0][2:], "=")
		args = args[1:]
		if name == "help" {
			return args, true, nil
		}
		flag := map[string]*string{"fabric": &g.Fabric, "dir": &g.Dir, "owner": &g.Owner}[name]
		if flag == nil {
			return nil, false, badInput("unknown flag: --%s: see `ddlemu ssh --help`", name)
		}
		if !given {
			if len(args) == 0 {
				return nil, false, badInput("--%s needs a value", name)
			}
			value, args = args[0], args[1:]
		}
		*flag = value
	}
	return args, false, nil
}

// runSSH returns only with an error.
func runSSH(ctx context.Context, g *global, args []string) error {
	endBySignals()
	line, err := launch.ParseSSH(args)
	if err != nil {
		return err
	}
	up, err := g.open()
	if err != nil {
		return err
	}
	defer up.Close()
	e, err := g.entry(up, line.Host)
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
	return e.run(ctx, o, who.Shell, argv, e.environment(login(who), who))
}

// accountOf is the user called name, or with the number uid if there is no name.
func accountOf(name string, uid int) (launch.Account, error) {
	if name == "" {
		return launch.AccountByID(uid)
	}
	a, err := launch.AccountByName(name)
	var unknown user.UnknownUserError
	if errors.As(err, &unknown) {
		return a, badInput("there is no user %q", name)
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

// login is the environment that a user has after login, and what of this process's
// makes the same programs be found there and understand the terminal. The job that
// this process is of goes on there.
func login(who launch.Account) []string {
	env := []string{"HOME=" + who.Home, "USER=" + who.Name, "LOGNAME=" + who.Name, "SHELL=" + who.Shell}
	for _, v := range os.Environ() {
		switch name, _, _ := strings.Cut(v, "="); {
		case strings.HasPrefix(name, "LC_"):
			env = append(env, v)
		case name == "PATH", name == libraryEnv, name == "LANG", name == "TERM", name == "TZ", name == job.JobEnv:
			env = append(env, v)
		}
	}
	return env
}
