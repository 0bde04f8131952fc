// SPDX-License-Identifier: Apache-2.0

// Package softbuild builds build/softcuda: the software CUDA runtime with the executor of NCCL's kernels, the NVML
// library, and NCCL itself, which it downloads from Debian and relinks: against these libraries, and with their objects
// into one library for guests. A step is skipped if its inputs have not changed. An interrupted step leaves the old
// product or none.
package softbuild

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
)

// Options are the settings of a build.
type Options struct {
	// Build is the folder of softcuda/ and cache/.
	Build string
	// Source is the folder of the sources: cuda/soft.
	Source string
	// Refresh queries Debian's archive although the cache has the packages.
	Refresh bool
	// OneNCCL leaves out every NCCL but the default one, and the libraries for guests, unless an earlier build has made
	// them.
	OneNCCL bool
	// Out receives one line per step.
	Out io.Writer
}

// Summary is the content of build/softcuda/softcuda.json.
type Summary struct {
	// NCCL lists the relinked versions. The first is the default, in lib/.
	NCCL []Package `json:"nccl"`
	// Refused lists Debian's versions that the executor does not support.
	Refused []Refusal `json:"refused"`
}

// SummaryFile is the summary's name in build/softcuda.
const SummaryFile = "softcuda.json"

type builder struct {
	Options
	ctx context.Context
	con *console
	cc  *compiler
	// Objects of the runtime with the executor, and of NVML.
	runtime, nvml []string
}

func (b *builder) src(path string) string     { return filepath.Join(b.Source, path) }
func (b *builder) soft() string               { return filepath.Join(b.Build, "softcuda") }
func (b *builder) lib(name string) string     { return filepath.Join(b.soft(), "lib", name) }
func (b *builder) guest(name string) string   { return filepath.Join(b.soft(), "lib", "guest", name) }
func (b *builder) include(name string) string { return filepath.Join(b.soft(), "include", name) }
func (b *builder) cache() string              { return filepath.Join(b.Build, "cache") }
func (b *builder) unpacked(v Version) string {
	return filepath.Join(b.cache(), "nccl", string(v))
}
func (b *builder) supportsProgram() string {
	return filepath.Join(b.soft(), "bin", "softcuda-supports")
}

// Run builds as much as possible. The error names each part that is missing, and why.
func Run(ctx context.Context, o Options) error {
	b := &builder{Options: o, ctx: ctx, con: newConsole(o.Out)}
	if err := checkTools(); err != nil {
		return err
	}
	if err := os.MkdirAll(b.cache(), 0o755); err != nil {
		return fmt.Errorf("make folder: %w", err)
	}
	unlock, err := b.lock()
	if err != nil {
		return err
	}
	defer unlock()
	b.removeLeftovers()
	if b.cc, err = newCompiler(ctx, b.con, filepath.Join(b.soft(), "obj")); err != nil {
		return err
	}
	check, err := b.buildCheck()
	if err != nil {
		return err
	}
	packages, stop := b.findPackages()
	defer stop()
	objects, err := b.buildRuntime()
	if err != nil {
		return err
	}
	if err := b.installHeaders(); err != nil {
		return err
	}
	summary, more, err := b.buildNCCL(packages())
	if err == nil {
		err = b.cc.prune(slices.Concat(check, objects, more))
	}
	return errors.Join(err, b.finish(summary))
}

// findPackages finds the packages of all wanted NCCLs in the background: a download takes the network, compiling takes
// the processors. packages waits for them. stop ends the search, and waits until it has ended.
func (b *builder) findPackages() (packages func() []foundPackage, stop func()) {
	search := *b
	ctx, cancel := context.WithCancel(b.ctx)
	search.ctx = ctx
	var found []foundPackage
	done := make(chan struct{})
	go func() {
		defer close(done)
		for _, w := range search.wanted() {
			f, err := search.findPackage(w)
			f.wanted, f.err = w, err
			found = append(found, f)
		}
	}()
	return func() []foundPackage { <-done; return found }, func() { cancel(); <-done }
}

// buildNCCL relinks each NCCL that was found. It continues after a failure. It returns all objects.
func (b *builder) buildNCCL(packages []foundPackage) (Summary, []string, error) {
	var s Summary
	var objects []string
	var errs []error
	for _, c := range packages {
		s.Refused = append(s.Refused, c.refused...)
		if c.err != nil {
			errs = append(errs, fmt.Errorf("get %s: %w", c.wanted.what, c.err))
			continue
		}
		if c.version == "" {
			b.con.print("no %s: Debian has none that the executor supports", c.wanted.what)
			continue
		}
		p, more, err := b.relink(c.version, c.source)
		objects = append(objects, more...)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		s.NCCL = append(s.NCCL, p)
	}
	if len(s.NCCL) == 0 && len(errs) == 0 {
		errs = append(errs, errors.New("get NCCL: Debian has no version that the executor supports"))
	}
	return s, objects, errors.Join(errs...)
}

// wanted are the NCCLs to build. What an earlier build has made stays.
func (b *builder) wanted() []wantedNCCL {
	var s Summary
	data, err := os.ReadFile(filepath.Join(b.soft(), SummaryFile))
	several := err == nil && json.Unmarshal(data, &s) == nil && len(s.NCCL) > 1
	if b.OneNCCL && !several {
		return wantedNCCLs[:1]
	}
	return wantedNCCLs
}

// finish links the default NCCL into lib/, gives each NCCL the name by which a program is linked and its nccl.h, and
// writes the summary.
func (b *builder) finish(s Summary) error {
	if len(s.NCCL) > 0 {
		first := s.NCCL[0]
		relative, err := filepath.Rel("lib", first.Dir)
		if err != nil {
			return fmt.Errorf("name the default NCCL: %w", err)
		}
		if err := errors.Join(
			symlink(filepath.Join(relative, ncclLibrary), b.lib(ncclLibrary)),
			symlink(ncclLibrary, b.lib("libnccl.so"))); err != nil {
			return err
		}
	}
	for i, p := range s.NCCL {
		if err := symlink(ncclLibrary, filepath.Join(b.soft(), p.Dir, "libnccl.so")); err != nil {
			return err
		}
		header, err := os.ReadFile(filepath.Join(b.unpacked(Version(p.Package)), "nccl.h"))
		if err != nil {
			return fmt.Errorf("install nccl.h: %w", err)
		}
		paths := []string{b.include(filepath.Join(filepath.Base(p.Dir), "nccl.h"))}
		if i == 0 {
			paths = append(paths, b.include("nccl.h"))
		}
		for _, path := range paths {
			if err := replace(path, header); err != nil {
				return err
			}
		}
	}
	data, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return fmt.Errorf("write summary: %w", err)
	}
	return replace(filepath.Join(b.soft(), SummaryFile), append(data, '\n'))
}

func (b *builder) installHeaders() error {
	files, err := sources([]string{".h"}, b.src("include"))
	if err != nil {
		return err
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return fmt.Errorf("install header: %w", err)
		}
		if err := replace(b.include(filepath.Base(file)), data); err != nil {
			return err
		}
	}
	return nil
}

// lock locks the build folder. If another run has it, it waits.
func (b *builder) lock() (func(), error) {
	f, err := os.OpenFile(filepath.Join(b.cache(), ".lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("lock build folder: %w", err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		b.con.print("waiting for another run to finish")
		if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
			f.Close()
			return nil, fmt.Errorf("lock build folder: %w", err)
		}
	}
	return func() { f.Close() }, nil
}

// removeLeftovers removes temporary folders of an interrupted run. The caller has the lock.
func (b *builder) removeLeftovers() {
	for _, pattern := range []string{"download-*", "unpack-*"} {
		folders, _ := filepath.Glob(filepath.Join(b.cache(), pattern))
		for _, dir := range folders {
			_ = os.RemoveAll(dir)
		}
	}
}
