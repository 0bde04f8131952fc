// SPDX-License-Identifier: Apache-2.0

package softbuild

import (
	"slices"
	"strings"
)

// File names of the libraries. The runtime has the name of CUDA 12's, because it is binary compatible with that.
const (
	runtimeLibrary = "libcudart.so.12"
	driverLibrary  = "libcuda.so.1" // it is empty: the driver's functions are in the runtime, which it needs
	nvmlLibrary    = "libnvidia-ml.so.1"
	ncclLibrary    = "libnccl.so.2"
)

// units returns a unit for each file.
func units(files, folders, flags []string) []unit {
	var out []unit
	for _, file := range files {
		out = append(out, unit{source: file, flags: flags, folders: folders})
	}
	return out
}

// link links objects into a library or program, unless it is up to date. inputs are other files that it depends on.
func (c *compiler) link(product string, objects, flags, inputs []string) error {
	hash, err := fingerprint(append(append([]string{}, objects...), inputs...), c.version, strings.Join(flags, " "))
	if err != nil {
		return err
	}
	return produce(product, hash, func(temporary string) error {
		args := append([]string{"-o", temporary}, objects...)
		return c.run("g++", append(args, flags...)...)
	})
}

// soname returns the linker flags of a shared library that has the name and no undefined symbols.
func soname(name string) []string {
	return []string{"-shared", "-Wl,-z,defs", "-Wl,-soname," + name}
}

// compileRuntime compiles the runtime with the executor, and NVML.
func (b *builder) compileRuntime(folders []string) error {
	files, err := sources([]string{".cc"}, b.src("runtime"), b.src("exec"))
	if err != nil {
		return err
	}
	if b.runtime, err = b.cc.compile("the software CUDA runtime and the executor",
		units(files, folders, nil)); err != nil {
		return err
	}
	b.nvml, err = b.cc.compile("the NVML library", units([]string{b.src("nvml/nvml.c")}, nil, nil))
	return err
}

// buildCheck builds the program that says which versions of NCCL are supported. It needs few sources, so that a
// download can begin while the others are compiled. It returns its objects.
func (b *builder) buildCheck() ([]string, error) {
	check, err := b.cc.compile("the version check", units([]string{b.src("supports/main.cc"), b.src("exec/layout.cc")},
		[]string{b.src("include")}, nil))
	if err != nil {
		return nil, err
	}
	return check, b.cc.link(b.supportsProgram(), check, nil, nil)
}

// buildRuntime builds the CUDA runtime with the executor, and the NVML library. It returns all objects.
func (b *builder) buildRuntime() ([]string, error) {
	if err := b.compileRuntime([]string{b.src("include")}); err != nil {
		return nil, err
	}
	exports := b.src("runtime/exports.map")
	flags := append(soname(runtimeLibrary), "-Wl,--version-script="+exports, "-pthread", "-ldl")
	if err := b.cc.link(b.lib(runtimeLibrary), b.runtime, flags, []string{exports}); err != nil {
		return nil, err
	}
	needs := append(soname(driverLibrary), "-Wl,-rpath,$ORIGIN", "-Wl,--enable-new-dtags", "-Wl,--no-as-needed",
		b.lib(runtimeLibrary))
	if err := b.cc.link(b.lib(driverLibrary), nil, needs, []string{b.lib(runtimeLibrary)}); err != nil {
		return nil, err
	}
	if err := b.cc.link(b.lib(nvmlLibrary), b.nvml, soname(nvmlLibrary), nil); err != nil {
		return nil, err
	}
	return slices.Concat(b.runtime, b.nvml), symlink(runtimeLibrary, b.lib("libcudart.so"))
}
