// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/ddlemu/ddlemu/cuda/locate"
	"github.com/ddlemu/ddlemu/shaper/fabric"
	"github.com/ddlemu/ddlemu/shaper/fabric/fabricfile"
	"github.com/ddlemu/ddlemu/shaper/fabric/state"
)

const libraryEnv = "LD_LIBRARY_PATH"

// upCommand is a command that brings up a fabric in the folder and for the user of this
// command. name is its name, "" for the profile's.
func (g *global) upCommand(name string) string {
	text := "ddlemu up --profile eth10"
	for _, f := range []struct{ flag, value string }{{"dir", g.Dir}, {"owner", g.Owner}, {"name", name}} {
		if f.value != "" {
			text += " --" + f.flag + " " + quote(f.value)
		}
	}
	return text
}

// dirPath is the folder of the fabrics of user uid.
func (g *global) dirPath(uid int) string {
	if g.Dir != "" {
		return g.Dir
	}
	if path := g.Getenv(dirEnv); path != "" {
		return path
	}
	return state.DefaultDir(uid)
}

// openDir opens the folder of fabrics. With create it makes the folder if there is none; without, the error wraps
// fs.ErrNotExist.
func (g *global) openDir(create bool) (*state.Dir, error) {
	uid, err := g.uid()
	if err != nil {
		return nil, err
	}
	dir, err := state.OpenDir(g.dirPath(uid), uid, create)
	if err != nil {
		// The user can correct whatever is wrong with the folder.
		return nil, &inputError{err}
	}
	return dir, nil
}

// named is the name of the fabric that the user gave, "" if none.
func (g *global) named() string {
	if g.Fabric != "" {
		return g.Fabric
	}
	return g.Getenv(fabricEnv)
}

// opened is a fabric that is up, and its folder.
type opened struct {
	Dir  *state.Dir
	File *state.File
}

// Close closes both.
func (o *opened) Close() {
	// The file is only read here, so an error of unmapping it has no consequence.
	_ = o.File.Close()
	_ = o.Dir.Close()
}

// open opens the fabric that --fabric or DDLEMU_FABRIC names, else the only one that a user brought up, else that of
// the only running command. If there is none, or several, the error has status 2 and says what to do; if there is none,
// it wraps fs.ErrNotExist.
func (g *global) open() (*opened, error) {
	dir, err := g.openDir(false)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, g.noFabric(g.named())
	}
	if err != nil {
		return nil, err
	}
	name := g.named()
	if name == "" {
		if name, err = dir.Only(); err != nil {
			dir.Close()
			return nil, badInput("%w or with --fabric", err)
		}
	}
	if name == "" {
		dir.Close()
		return nil, g.noFabric("")
	}
	file, err := g.openIn(dir, name)
	if err != nil {
		dir.Close()
		return nil, err
	}
	return &opened{dir, file}, nil
}

// openKernel is open for a command that runs programs on nodes: if no fabric is up, the error suggests one of the
// kernel datapath.
func (g *global) openKernel() (*opened, error) {
	up, err := g.open()
	if none := (*notUpError)(nil); errors.As(err, &none) && none.command != "" {
		none.command += " --datapath kernel"
	}
	return up, err
}

// openIn opens the fabric called name.
func (g *global) openIn(dir *state.Dir, name string) (*state.File, error) {
	if err := state.CheckName(name); err != nil {
		return nil, &inputError{err}
	}
	file, err := dir.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		names, _ := dir.Names()
		if len(names) == 0 {
			return nil, g.noFabric(name)
		}
		return nil, &inputError{&notUpError{text: fmt.Sprintf("fabric %s is not up in %s: there are %s", name, dir.Path, strings.Join(names, ", "))}}
	}
	return file, err
}

// noFabric is the error if no fabric is up.
func (g *global) noFabric(name string) error {
	uid, err := g.uid()
	if err != nil {
		return err
	}
	what := "no fabric is up"
	if name != "" {
		what = "fabric " + name + " is not up, nor is any other"
	}
	return &inputError{&notUpError{text: what + " in " + g.dirPath(uid), command: g.upCommand(name)}}
}

// notUpError is fs.ErrNotExist with a text for users.
type notUpError struct {
	text    string
	command string // brings one up; empty if others are up
}

func (e *notUpError) Error() string {
	if e.command == "" {
		return e.text
	}
	return e.text + ": bring one up with `" + e.command + "` (`ddlemu profiles` lists the profiles)"
}
func (e *notUpError) Is(target error) bool { return target == fs.ErrNotExist }

// create brings up fab under the given name. After an error nothing remains.
func (g *global) create(fab *fabric.Fabric, name string) (*opened, error) {
	if err := state.CheckName(name); err != nil {
		return nil, badInput("%w: give --name", err)
	}
	if strings.HasPrefix(name, state.JobPrefix) {
		return nil, badInput("fabric name %q: names that begin with %s are those of running commands: give another --name", name, state.JobPrefix)
	}
	spec, err := fabricfile.Describe(fab, name)
	if err != nil {
		return nil, err
	}
	uid, err := g.uid()
	if err != nil {
		return nil, err
	}
	path := g.dirPath(uid)
	_, statErr := os.Lstat(path)
	dir, err := g.openDir(true)
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
		return nil, &inputError{err}
	}
	return &opened{dir, file}, nil
}

// environment returns the variables of a job on a fabric as NAME=value: the fabric, its folder if that is not the
// default, the plugin if it is in its usual place, and PyTorch's backend.
func (g *global) environment(o *opened) []string {
	var env []string
	if uid, err := g.uid(); err == nil && o.Dir.Path != state.DefaultDir(uid) {
		path := o.Dir.Path
		if abs, err := filepath.Abs(path); err == nil {
			path = abs
		}
		env = append(env, dirEnv+"="+path)
	}
	env = append(env, fabricEnv+"="+o.File.Name(), "NCCL_NET_PLUGIN=goemu")
	if lib := pluginDir(); lib != "" {
		old := g.Getenv(libraryEnv)
		switch {
		case slices.Contains(filepath.SplitList(old), lib): // this program was started with it
			lib = old
		case old != "":
			lib += ":" + old
		}
		env = append(env, libraryEnv+"="+lib)
	}
	torch, _ := g.torchEnvironment() // printEnvironment prints the error
	return append(env, torch...)
}

// torchEnvironment returns the variables by which PyTorch finds the backend ddlemu, as `ddlemu run` sets them.
func (g *global) torchEnvironment() ([]string, error) {
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

// printEnvironment prints the environment as lines for a shell.
func (g *global) printEnvironment(o *opened) {
	layout, _ := locate.Find() // without it the environment has no list of folders
	added := map[string]string{libraryEnv: layout.Plugin, locate.PythonPathEnv: layout.Torch}
	for _, v := range g.environment(o) {
		name, value, _ := strings.Cut(v, "=")
		if folder, isList := added[name]; isList {
			fmt.Fprintf(g.Stdout, "export %s=%s${%[1]s:+:$%[1]s}\n", name, quote(folder))
			continue
		}
		fmt.Fprintf(g.Stdout, "export %s=%s\n", name, quote(value))
	}
	if _, err := g.torchEnvironment(); err != nil {
		fmt.Fprintf(g.Stdout, "# PyTorch has no backend ddlemu: %v\n", err)
	}
	if pluginDir() == "" {
		fmt.Fprintf(g.Stdout, "# libgoemu.so is not beside ddlemu: put its folder into %s\n", libraryEnv)
	}
}

// quote quotes s as a word for a shell.
func quote(s string) string {
	if s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./:-+,@%=") == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
