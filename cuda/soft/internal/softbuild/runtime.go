// SPDX-License-Identifier: Apache-2.0

package softbuild

import (
	"slices"
	"strings"
)

// Names that the loader looks for. The runtime's is CUDA 12's own, because it is binary compatible with that.
const (
	runtimeLibrary = "libcudart.so.12"
	nvmlLibrary    = "libnvidia-ml.so.1"
	ncclLibrary    = "libnccl.so.2"
)

// units makes one for each source.
func units(files, folders, flags []string) []unit {
	var out []unit
	for _, file := range files {
		out = append(out, unit{source: file, flags: flags, folders: folders})
	}
	return out
}

// link links objects into a product, a shared library unless it is a program, if they are not what it was made from.
func (c *compiler) link(product string, objects, flags, inputs []string) error {
	print, err := fingerprint(append(append([]string{}, objects...), inputs...), c.ident, strings.Join(flags, " "))
	if err != nil {
		return err
	}
	return produce(product, print, func(temporary string) error {
		args := append([]string{"-o", temporary}, objects...)
		return c.run("g++", append(args, flags...)...)
	})
}

// soname makes a linker's flags for a shared library of that name that leaves nothing undefined.
func soname(name string) []string {
	return []string{"-shared", "-Wl,-z,defs", "-Wl,-soname," + name}
}

// buildRuntime makes the CUDA runtime with the executor, the NVML stand-in, and the program that tells which NCCLs
// the executor knows. It returns all objects.
func (b *builder) buildRuntime() ([]string, error) {
	folders := []string{b.src("include")}
	files, err := sources([]string{".cc"}, b.src("runtime"), b.src("exec"))
	if err != nil {
		return nil, err
	}
	runtime, err := b.cc.compile("the software CUDA runtime and the executor", units(files, folders, nil))
	if err != nil {
		return nil, err
	}
	nvml, err := b.cc.compile("the NVML stand-in", units([]string{b.src("nvml/nvml.c")}, nil, nil))
	if err != nil {
		return nil, err
	}
	knows, err := b.cc.compile("the version check", units([]string{b.src("glue/knows.cc")}, folders, nil))
	if err != nil {
		return nil, err
	}
	exports := b.src("runtime/exports.map")
	flags := append(soname(runtimeLibrary), "-Wl,--version-script="+exports, "-pthread", "-ldl")
	if err := b.cc.link(b.lib(runtimeLibrary), runtime, flags, []string{exports}); err != nil {
		return nil, err
	}
	if err := b.cc.link(b.lib(nvmlLibrary), nvml, soname(nvmlLibrary), nil); err != nil {
		return nil, err
	}
	flags = []string{b.lib(runtimeLibrary), "-Wl,-rpath,$ORIGIN/../lib"}
	if err := b.cc.link(b.knowsProgram(), knows, flags, nil); err != nil {
		return nil, err
	}
	return slices.Concat(runtime, nvml, knows), symlink(runtimeLibrary, b.lib("libcudart.so"))
}
