// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/ddlemu/ddlemu/cuda/locate"
	"github.com/ddlemu/ddlemu/shaper/fabric"
	"github.com/ddlemu/ddlemu/shaper/fabric/fabricfile"
	"github.com/ddlemu/ddlemu/shaper/fabric/state"
)

// LibraryEnv is the variable by which the dynamic linker finds the plugin.
const LibraryEnv = "LD_LIBRARY_PATH"

// UpCommand is a command that brings up a fabric in the folder and for the user of this
// command. name is its name, "" for the profile's.
func (g *Global) UpCommand(name string) string {
	text := "ddlemu up --profile eth10"
	for _, f := range []struct{ flag, value string }{{"dir", g.Dir}, {"owner", g.Owner}, {"name", name}} {
		if f.value != "" {
			text += " --" + f.flag + " " + Quote(f.value)
		}
	}
	return text
}

// DirPath is the folder of the fabrics of user uid.
func (g *Global) DirPath(uid int) string {
	return cmp.Or(g.Dir, g.Getenv(DirEnv), state.DefaultDir(uid))
}

// OpenDir opens the folder of fabrics. With create it makes the folder if there is none; without, the error wraps
// fs.ErrNotExist.
func (g *Global) OpenDir(create bool) (*state.Dir, error) {
	uid, err := g.UID()
	if err != nil {
		return nil, err
	}
	dir, err := state.OpenDir(g.DirPath(uid), uid, create)
	if err != nil {
		// The user can correct whatever is wrong with the folder.
		return nil, &InputError{err}
	}
	return dir, nil
}

// Named is the name of the fabric that the user gave, "" if none.
func (g *Global) Named() string { return cmp.Or(g.Fabric, g.Getenv(FabricEnv)) }

// Opened is a fabric that is up, and its folder.
type Opened struct {
	Dir  *state.Dir
	File *state.File
}

// Close closes both.
func (o *Opened) Close() {
	// The file is only read here, so an error of unmapping it has no consequence.
	_ = o.File.Close()
	_ = o.Dir.Close()
}

// Open opens the fabric that --fabric or DDLEMU_FABRIC names, else the only one that a user brought up, see
// [Global.Default]. If there is none, or several, the error has status 2 and says what to do; if there is none, it
// wraps fs.ErrNotExist.
func (g *Global) Open() (*Opened, error) { return g.open(g.Default) }

// OpenToRead is Open for a command that changes nothing: if no user brought a fabric up, it opens the fabric of the
// only running command.
func (g *Global) OpenToRead() (*Opened, error) { return g.open(onlyToRead) }

// onlyToRead is the only fabric of a folder that a command may read without a name.
func onlyToRead(dir *state.Dir) (string, error) {
	name, err := dir.OnlyToRead()
	if err != nil {
		return "", BadInput("%w or with --fabric", err)
	}
	return name, nil
}

// open opens the fabric that is named, else the one that choose returns.
func (g *Global) open(choose func(*state.Dir) (string, error)) (*Opened, error) {
	dir, err := g.OpenDir(false)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, g.NoFabric(g.Named())
	}
	if err != nil {
		return nil, err
	}
	name := g.Named()
	if name == "" {
		if name, err = choose(dir); err != nil {
			dir.Close()
			return nil, err
		}
	}
	if name == "" {
		dir.Close()
		return nil, g.NoFabric("")
	}
	file, err := g.OpenIn(dir, name)
	if err != nil {
		dir.Close()
		return nil, err
	}
	return &Opened{dir, file}, nil
}

// OpenKernel is open for a command that runs programs on nodes: if no fabric is up, the error suggests one of the
// kernel datapath.
func (g *Global) OpenKernel() (*Opened, error) {
	up, err := g.Open()
	if none, ok := errors.AsType[*NotUpError](err); ok && none.command != "" {
		none.command += " --set datapath=kernel"
	}
	return up, err
}

// OpenIn opens the fabric called name.
func (g *Global) OpenIn(dir *state.Dir, name string) (*state.File, error) {
	if err := state.CheckName(name); err != nil {
		return nil, &InputError{err}
	}
	file, err := dir.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		names, _ := dir.Names()
		if len(names) == 0 {
			return nil, g.NoFabric(name)
		}
		return nil, &InputError{
			&NotUpError{text: fmt.Sprintf("fabric %s is not up in %s: there are %s", name, dir.Path,
				strings.Join(names, ", "))}}
	}
	return file, err
}

// NoFabric is the error if no fabric is up.
func (g *Global) NoFabric(name string) error {
	uid, err := g.UID()
	if err != nil {
		return err
	}
	what := "no fabric is up"
	if name != "" {
		what = "fabric " + name + " is not up, nor is any other"
	}
	return &InputError{&NotUpError{text: what + " in " + g.DirPath(uid), command: g.UpCommand(name)}}
}

// NotUpError is fs.ErrNotExist with a text for users.
type NotUpError struct {
	text    string
	command string // brings one up; empty if others are up
}

func (e *NotUpError) Error() string {
	if e.command == "" {
		return e.text
	}
	return e.text + ": bring one up with `" + e.command + "` (`ddlemu profiles` lists the profiles)"
}

// Is says that it is fs.ErrNotExist.
func (e *NotUpError) Is(target error) bool { return target == fs.ErrNotExist }

// Create brings up fab under the given name. After an error nothing remains.
func (g *Global) Create(fab *fabric.Fabric, name string) (*Opened, error) {
	if err := state.CheckName(name); err != nil {
		return nil, BadInput("%w: give --name", err)
	}
	if strings.HasPrefix(name, state.JobPrefix) {
		return nil, BadInput(
			"fabric name %q: names that begin with %s are names of running commands: give another --name",
			name, state.JobPrefix)
	}
	if err := fab.Config.CheckEmulated(); err != nil {
		return nil, err
	}
	spec, err := fabricfile.Describe(fab, name)
	if err != nil {
		return nil, err
	}
	uid, err := g.UID()
	if err != nil {
		return nil, err
	}
	path := g.DirPath(uid)
	_, statErr := os.Lstat(path)
	dir, err := g.OpenDir(true)
	if err != nil {
		return nil, err
	}
	file, err := dir.Create(spec)
	if err != nil {
		dir.Close()
		if errors.Is(statErr, fs.ErrNotExist) {
			os.Remove(path) // succeeds only if the folder is empty
		}
		// The user can correct these errors: the name is in use, no space, the fabric is too large.
		return nil, &InputError{err}
	}
	return &Opened{dir, file}, nil
}

// Environment returns the variables of a job on a fabric as NAME=value: the fabric, its folder if that is not the
// default, the plugin if it is in its usual place, and PyTorch's backend.
func (g *Global) Environment(o *Opened) []string {
	var env []string
	if uid, err := g.UID(); err == nil && o.Dir.Path != state.DefaultDir(uid) {
		path := o.Dir.Path
		if abs, err := filepath.Abs(path); err == nil {
			path = abs
		}
		env = append(env, DirEnv+"="+path)
	}
	env = append(env, FabricEnv+"="+o.File.Name(), "NCCL_NET_PLUGIN=goemu")
	if lib := pluginDir(); lib != "" {
		old := g.Getenv(LibraryEnv)
		switch {
		case slices.Contains(filepath.SplitList(old), lib): // this program was started with it
			lib = old
		case old != "":
			lib += ":" + old
		}
		env = append(env, LibraryEnv+"="+lib)
	}
	torch, _ := g.torchEnvironment() // PrintEnvironment prints the error
	return append(env, torch...)
}

// torchEnvironment returns the variables by which PyTorch finds the backend ddlemu, as `ddlemu run` sets them.
func (g *Global) torchEnvironment() ([]string, error) {
	layout, err := locate.Find()
	if err != nil || locate.HasGPU() {
		return nil, err
	}
	return layout.TorchEnv("", g.Getenv)
}

// pluginDir is the folder of libgoemu.so, "" if it is not in its usual place.
func pluginDir() string {
	layout, err := locate.Find()
	if err != nil || layout.CheckPlugin() != nil {
		return ""
	}
	return layout.Plugin
}

// PrintEnvironment prints the environment as lines for a shell.
func (g *Global) PrintEnvironment(o *Opened) {
	layout, _ := locate.Find() // without it the environment has no list of folders
	added := map[string]string{LibraryEnv: layout.Plugin, locate.PythonPathEnv: layout.Torch}
	for _, v := range g.Environment(o) {
		name, value, _ := strings.Cut(v, "=")
		if folder, isList := added[name]; isList {
			fmt.Fprintf(g.Stdout, "export %s=%s${%[1]s:+:$%[1]s}\n", name, Quote(folder))
			continue
		}
		fmt.Fprintf(g.Stdout, "export %s=%s\n", name, Quote(value))
	}
	if _, err := g.torchEnvironment(); err != nil {
		fmt.Fprintf(g.Stdout, "# PyTorch has no backend ddlemu: %v\n", err)
	}
	if pluginDir() == "" {
		fmt.Fprintf(g.Stdout, "# libgoemu.so is not beside ddlemu: put its folder into %s\n", LibraryEnv)
	}
}

// Quote quotes s as a word for a shell.
func Quote(s string) string {
	if s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./:-+,@%=") == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// Default is the name of the only fabric that a user brought up, "" if no fabric is up. A private fabric is never the
// default: if there are only such, the error says whose they are.
func (g *Global) Default(dir *state.Dir) (string, error) {
	name, err := dir.Shared()
	if err != nil {
		return "", BadInput("%w or with --fabric", err)
	}
	if name != "" {
		return name, nil
	}
	names, err := dir.Names()
	if err != nil {
		return "", err
	}
	var private []string
	for _, n := range names {
		if owner := OwnerInUse(dir, n); owner != "" {
			private = append(private, n+" "+owner)
		}
	}
	if len(private) == 0 {
		return "", nil
	}
	return "", BadInput("only private fabrics are up, which are no default: %s: name one with --fabric, or bring up one "+
		"of yours with `%s`", strings.Join(private, "; "), g.UpCommand(""))
}

// OwnerInUse says whose the fabric called name is, if it is private to a command or a job that still runs; "" if not.
func OwnerInUse(dir *state.Dir, name string) string {
	if !state.IsPrivate(name) {
		return ""
	}
	file, err := dir.Open(name)
	if err != nil {
		return "" // nobody can use it
	}
	defer file.Close()
	file.Reap()
	if !file.InUse() && file.LiveRanks() == 0 {
		return ""
	}
	return Owner(file)
}

// TellPrivate says whose a private fabric is that a command changes or ends, because a user named it.
func (g *Global) TellPrivate(file *state.File) {
	if owner := Owner(file); owner != "" {
		fmt.Fprintf(g.Stderr, "ddlemu: fabric %s %s\n", file.Name(), owner)
	}
}

// Owner says whose a private fabric is, "" of one that a user brought up.
func Owner(file *state.File) string {
	if !state.IsPrivate(file.Name()) {
		return ""
	}
	pid := file.User()
	ranks := file.Ranks()
	if pid == 0 && len(ranks) > 0 {
		pid = int(ranks[0].PID)
	}
	if pid == 0 {
		return "is private to a command that has ended or cannot be seen from here"
	}
	text := fmt.Sprintf("is private to process %d", pid)
	if name := userOf(pid); name != "" {
		text += " of user " + name
	}
	if command := commandLine(pid); command != "" {
		text += " (" + command + ")"
	}
	return text
}

// userOf is the name of the user that runs a process, "" if it has ended.
func userOf(pid int) string {
	info, err := os.Stat(fmt.Sprintf("/proc/%d", pid))
	if err != nil {
		return ""
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return ""
	}
	uid := strconv.Itoa(int(stat.Uid))
	if u, err := user.LookupId(uid); err == nil {
		return u.Username
	}
	return uid
}

// longestCommand is how many characters of a command line are shown.
const longestCommand = 120

// commandLine is the command line of a process as words for a shell, "" if it cannot be read.
func commandLine(pid int) string {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil || len(b) == 0 {
		return ""
	}
	words := slices.Collect(strings.SplitSeq(string(bytes.TrimSuffix(b, []byte{0})), "\x00"))
	for i := range words {
		words[i] = strconv.Quote(Quote(words[i]))
		words[i] = words[i][1 : len(words[i])-1] // a line break must not look like a line of ddlemu
	}
	line := []rune(strings.Join(words, " "))
	if len(line) > longestCommand {
		return string(line[:longestCommand]) + " …"
	}
	return string(line)
}
