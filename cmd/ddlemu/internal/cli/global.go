// SPDX-License-Identifier: Apache-2.0

// Package cli is what the commands of ddlemu share: common flags, errors with their exit statuses, output, tables and
// progress.
package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/user"
	"slices"
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
	DirEnv    = job.DirEnv
	FabricEnv = job.FabricEnv
	SudoEnv   = "SUDO_UID"
)

// Global is what all commands share: common flags, and input, output and environment,
// which tests replace.
type Global struct {
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

// AddFabricFlag adds --fabric to a command that works on a fabric that is up.
func (g *Global) AddFabricFlag(fs *pflag.FlagSet) {
	fs.StringVar(&g.Fabric, "fabric", "", "`name` of the fabric (default: $"+FabricEnv+
		", else the only one that is up)")
}

// AddJSONFlag adds --json to a command that prints data.
func (g *Global) AddJSONFlag(fs *pflag.FlagSet) {
	fs.BoolVar(&g.JSON, "json", false, "print JSON, errors included")
}

// VerboseFlag shows all reasons for INVALID.
const VerboseFlag = "--verbose"

// AddVerboseFlag adds --verbose to a command that prints reasons for INVALID.
func (g *Global) AddVerboseFlag(fs *pflag.FlagSet) {
	fs.BoolVar(&g.Verbose, strings.TrimPrefix(VerboseFlag, "--"), false,
		"print all reasons for INVALID, not only the worst three links or rows")
}

// More is the option that shows reasons which are not printed; "" if all are.
func (g *Global) More() string {
	if g.Verbose {
		return ""
	}
	return VerboseFlag
}

// PrintJSON writes v to standard output as JSON.
func (g *Global) PrintJSON(v any) error { return WriteJSON(g.Stdout, v) }

// WriteJSON writes v as JSON.
func WriteJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	if err := e.Encode(v); err != nil {
		return fmt.Errorf("write JSON: %w", err)
	}
	return nil
}

// Print writes a document to standard output: as JSON with --json, else as text.
func (g *Global) Print(document any, text func(w io.Writer)) error {
	return g.Write(document, func(w io.Writer) error { text(w); return nil })
}

// Write is [Global.Print] for a text that returns errors.
func (g *Global) Write(document any, text func(w io.Writer) error) error {
	if g.JSON {
		return g.PrintJSON(document)
	}
	return text(g.Stdout)
}

// Warn writes a warning to standard error.
func (g *Global) Warn(format string, args ...any) {
	fmt.Fprintf(g.Stderr, "ddlemu: warning: "+format+"\n", args...)
}

// UID is the user who owns the fabrics: --owner, under sudo the user who called it, else
// the caller.
func (g *Global) UID() (int, error) {
	me := os.Getuid()
	if g.Owner == "" {
		if text := g.Getenv(SudoEnv); text != "" && me == 0 {
			uid, err := strconv.ParseUint(text, 10, 31)
			if err != nil {
				return 0, BadInput("%s: %q is not a user number: unset it, or give --owner", SudoEnv, text)
			}
			return int(uid), nil
		}
		return me, nil
	}
	uid, err := strconv.ParseUint(g.Owner, 10, 31)
	if err != nil {
		u, err := user.Lookup(g.Owner)
		if err != nil {
			return 0, BadInput("--owner: there is no user %q: give a name or a number", g.Owner)
		}
		// On Linux a user's id is a number.
		uid, _ = strconv.ParseUint(u.Uid, 10, 31)
	}
	if me != 0 && int(uid) != me {
		return 0, BadInput("--owner: only root can work on the fabrics of user %d: use sudo", uid)
	}
	return int(uid), nil
}

// Credential is the user that a job's programs run as, nil for this process's user. Root
// may work on the fabrics of another user; jobs on them run as that user.
func (g *Global) Credential() (*syscall.Credential, error) {
	uid, err := g.UID()
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

// KnownCommand refuses a command that does not exist, and lists similar ones.
func KnownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	name := args[0]
	var names []string
	for _, c := range cmd.Commands() {
		if slices.Contains(c.SuggestFor, name) {
			return BadInput("%q is not a command: did you mean %s?", name, c.Name())
		}
		if c.IsAvailableCommand() {
			names = append(names, c.Name())
		}
	}
	if near := configs.Nearest(name, names); len(near) > 0 {
		return BadInput("%q is not a command: did you mean %s?", name, strings.Join(near, " or "))
	}
	return BadInput("%q is not a command: there are %s", name, strings.Join(names, ", "))
}
