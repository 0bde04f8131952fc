// SPDX-License-Identifier: Apache-2.0

// Package softbuild makes build/softcuda: the software CUDA runtime with the executor of NCCL's kernels, the NVML
// stand-in, and NCCL itself, downloaded from Debian and relinked against them. Every step leaves its product whole
// or not at all and is skipped when nothing it depends on has changed.
package softbuild

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Options say where things are.
type Options struct {
	// Build is the folder that gets softcuda/ and cache/.
	Build string
	// Source is the folder cuda/soft of the sources.
	Source string
	// Refresh asks Debian's archive again although the cache would do.
	Refresh bool
	// Out gets one line per step.
	Out io.Writer
}

// Summary is what build/softcuda/softcuda.json holds.
type Summary struct {
	// NCCL lists what can be chosen; the first is the default in lib/.
	NCCL []Package `json:"nccl"`
	// Refused lists versions that Debian has and the executor does not know.
	Refused []Refusal `json:"refused"`
}

// SummaryFile is the summary's name in build/softcuda.
const SummaryFile = "softcuda.json"

type builder struct {
	Options
	ctx context.Context
	con *console
	cc  *compiler
}

func (b *builder) src(path string) string     { return filepath.Join(b.Source, path) }
func (b *builder) soft() string               { return filepath.Join(b.Build, "softcuda") }
func (b *builder) lib(name string) string     { return filepath.Join(b.soft(), "lib", name) }
func (b *builder) include(name string) string { return filepath.Join(b.soft(), "include", name) }
func (b *builder) cache() string              { return filepath.Join(b.Build, "cache") }
func (b *builder) unpacked(v Version) string {
	return filepath.Join(b.cache(), "nccl", string(v))
}
func (b *builder) knowsProgram() string { return filepath.Join(b.soft(), "bin", "softcuda-knows") }

// Run makes everything that can be made. Its error, if any, is for the user: what is missing and why; what does not
// depend on it has been made.
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
	b.sweep()
	if b.cc, err = newCompiler(ctx, b.con, filepath.Join(b.soft(), "obj")); err != nil {
		return err
	}
	objects, err := b.buildRuntime()
	if err != nil {
		return err
	}
	if err := b.installHeaders(); err != nil {
		return err
	}
	summary, more, err := b.buildNCCL()
	if err == nil {
		err = b.cc.prune(append(objects, more...))
	}
	return errors.Join(err, b.finish(summary))
}

// buildNCCL goes on after a failure: one NCCL is better than none.
func (b *builder) buildNCCL() (Summary, []string, error) {
	var s Summary
	var objects []string
	var errs []error
	for _, w := range wants {
		c, err := b.choose(w)
		s.Refused = append(s.Refused, c.refused...)
		if err != nil {
			errs = append(errs, fmt.Errorf("get %s: %w", w.what, err))
			continue
		}
		if c.version == "" {
			b.con.say("no %s: Debian has none that the executor knows", w.what)
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
		errs = append(errs, errors.New("get NCCL: Debian has no version that the executor knows"))
	}
	return s, objects, errors.Join(errs...)
}

// finish makes the default NCCL the one that programs find, and says what there is.
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

// lock keeps two runs on one build folder apart; the second waits.
func (b *builder) lock() (func(), error) {
	f, err := os.OpenFile(filepath.Join(b.cache(), ".lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("lock build folder: %w", err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		b.con.say("waiting for another run to finish")
		if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
			f.Close()
			return nil, fmt.Errorf("lock build folder: %w", err)
		}
	}
	return func() { f.Close() }, nil
}

// sweep removes what an interrupted run left behind. Only called under the lock.
func (b *builder) sweep() {
	for _, pattern := range []string{"download-*", "unpack-*"} {
		left, _ := filepath.Glob(filepath.Join(b.cache(), pattern))
		for _, dir := range left {
			_ = os.RemoveAll(dir)
		}
	}
}
