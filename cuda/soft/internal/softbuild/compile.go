// SPDX-License-Identifier: Apache-2.0

package softbuild

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
)

// compiler compiles C and C++ sources into objects. The name of an object contains a hash of its inputs, so that an
// unchanged source is not compiled again.
type compiler struct {
	ctx     context.Context
	con     *console
	objects string // folder
	version string // first line of "g++ --version"
	headers *includes
}

// baseFlags are the flags of every source. Without -ffp-contract=off, rounding would depend on the host's instructions.
var baseFlags = []string{"-O3", "-g", "-Wall", "-Wextra", "-fPIC", "-fvisibility=hidden", "-ffp-contract=off"}

// tools are the programs that the build needs, with their Debian packages.
var tools = map[string]string{"g++": "g++", "gcc": "gcc", "as": "binutils", "ar": "binutils", "ld": "binutils",
	"dpkg": "dpkg", "dpkg-deb": "dpkg"}

func checkTools() error {
	if runtime.GOARCH != "amd64" {
		return fmt.Errorf("build the software CUDA: it is for amd64, this machine is %s", runtime.GOARCH)
	}
	var missing []string
	for program, pkg := range tools {
		if _, err := exec.LookPath(program); err != nil {
			missing = append(missing, fmt.Sprintf("%s (Debian package %s)", program, pkg))
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("find build tools: missing %s", strings.Join(missing, ", "))
	}
	return nil
}

func newCompiler(ctx context.Context, con *console, objects string) (*compiler, error) {
	out, err := exec.CommandContext(ctx, "g++", "--version").Output()
	if err != nil {
		return nil, fmt.Errorf("ask g++ for its version: %w", err)
	}
	version, _, _ := strings.Cut(string(out), "\n")
	headers := &includes{direct: map[string][]string{}}
	return &compiler{ctx: ctx, con: con, objects: objects, version: version, headers: headers}, nil
}

// run runs a tool. An error contains the tool's output.
func (c *compiler) run(name string, args ...string) error {
	out, err := exec.CommandContext(c.ctx, name, args...).CombinedOutput()
	if err == nil {
		return nil
	}
	if c.ctx.Err() != nil {
		return c.ctx.Err()
	}
	return fmt.Errorf("run %s for %s: %w\n%s", name, target(args), err, out)
}

// target returns the name of the output file in a tool's arguments, for messages.
func target(args []string) string {
	for i, arg := range args[:len(args)-1] {
		if arg == "-o" {
			return filepath.Base(strings.TrimSuffix(args[i+1], ".new"))
		}
	}
	return "no output"
}

// unit is a source and how it is compiled.
type unit struct {
	source string
	flags  []string
	// folders are searched for headers.
	folders []string
}

// command returns the compiler and its arguments, without input and output.
func (u unit) command() (string, []string) {
	tool, args := "g++", append([]string{"-std=c++17"}, baseFlags...)
	if filepath.Ext(u.source) == ".c" {
		tool, args = "gcc", append([]string{"-std=c11"}, baseFlags...)
	}
	args = append(args, u.flags...)
	for _, folder := range u.folders {
		args = append(args, "-I"+folder)
	}
	return tool, args
}

// object returns the file name of a unit's object. It contains the unit's fingerprint.
func (c *compiler) object(u unit) (string, error) {
	files, err := c.headers.closure(u.source, u.folders)
	if err != nil {
		return "", err
	}
	tool, args := u.command()
	hash, err := fingerprint(files, c.version, tool, strings.Join(args, " "))
	if err != nil {
		return "", err
	}
	name := strings.TrimSuffix(filepath.Base(u.source), filepath.Ext(u.source))
	return filepath.Join(c.objects, name+"-"+hash+".o"), nil
}

// compileUnit compiles a unit into an object.
func (c *compiler) compileUnit(u unit, object string) error {
	tool, args := u.command()
	temporary := object + ".new"
	defer os.Remove(temporary)
	if err := c.run(tool, append(args, "-c", u.source, "-o", temporary)...); err != nil {
		return err
	}
	if err := os.Rename(temporary, object); err != nil {
		return fmt.Errorf("move into place: %w", err)
	}
	return nil
}

// compile compiles the units that have no object yet, in parallel, and returns the objects of all units in order.
func (c *compiler) compile(what string, units []unit) ([]string, error) {
	objects := make([]string, len(units))
	var missing []int
	for i, u := range units {
		var err error
		if objects[i], err = c.object(u); err != nil {
			return nil, err
		}
		if _, err := os.Stat(objects[i]); err != nil {
			missing = append(missing, i)
		}
	}
	if len(missing) == 0 {
		return objects, nil
	}
	c.con.print("compiling %s (%d of %d files)", what, len(missing), len(units))
	if err := os.MkdirAll(c.objects, 0o755); err != nil {
		return nil, fmt.Errorf("make folder: %w", err)
	}
	advance, done := c.con.bar("compiling", len(missing))
	defer done()
	errs := make([]error, len(units))
	var wg sync.WaitGroup
	var mu sync.Mutex
	finished := 0
	slots := make(chan struct{}, runtime.NumCPU())
	for _, i := range missing {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			errs[i] = c.compileUnit(units[i], objects[i])
			mu.Lock()
			defer mu.Unlock()
			finished++
			advance(finished)
		})
	}
	wg.Wait()
	return objects, errors.Join(errs...)
}

// prune removes the objects that are not in used.
func (c *compiler) prune(used []string) error {
	keep := map[string]bool{}
	for _, o := range used {
		keep[filepath.Base(o)] = true
	}
	entries, err := os.ReadDir(c.objects)
	if err != nil {
		return fmt.Errorf("list objects: %w", err)
	}
	for _, e := range entries {
		if keep[e.Name()] {
			continue
		}
		if err := os.Remove(filepath.Join(c.objects, e.Name())); err != nil {
			return fmt.Errorf("remove old object: %w", err)
		}
	}
	return nil
}
