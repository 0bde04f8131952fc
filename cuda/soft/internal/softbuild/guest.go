// SPDX-License-Identifier: Apache-2.0

package softbuild

import (
	"os"
	"slices"
	"strings"
)

// guestLibrary returns the file name of the NCCL of a release line for guests: NCCL, the runtime and NVML in one
// library, which a process can open that has other libraries of these names.
func guestLibrary(line string) string { return "libddlemu-nccl-" + line + ".so" }

// guestFlags are the flags of the second link. Its own functions call each other, whatever else the process has.
func guestFlags(name, exports string) []string {
	return slices.Concat(soname(name), []string{
		"-Wl,-Bsymbolic", "-Wl,--version-script=" + exports, "-Wl,--no-relax",
		// Its threads run until the process ends.
		"-Wl,-z,nodelete",
		// The process may have an older libstdc++.
		"-static-libstdc++", "-static-libgcc", "-pthread", "-ldl", "-lrt",
	})
}

// linkGuest links the NCCL of a release line for guests. It returns the objects that it has compiled.
func (b *builder) linkGuest(line string, parts parts) ([]string, error) {
	added, err := b.cc.compile("the functions added for guests",
		units([]string{b.src("guest/guest.cc")}, []string{b.src("include")}, nil))
	if err != nil {
		return nil, err
	}
	name, exports := guestLibrary(line), b.src("guest/exports.map")
	flags, wraps := guestFlags(name, exports), append(wraps(), "-Wl,--wrap=dlopen")
	soft := slices.Concat(b.runtime, b.nvml)
	hash, err := fingerprint(slices.Concat(added, soft, []string{exports}), parts.hash, strings.Join(flags, " "),
		strings.Join(wraps, " "))
	if err != nil {
		return added, err
	}
	return added, produce(b.guest(name), hash, func(temporary string) error {
		b.con.print("linking NCCL %s for guests", line)
		stubs, err := b.stubs(parts.objects, temporary)
		if err != nil {
			return err
		}
		defer os.Remove(stubs)
		// The first link leads NCCL's calls to cuda/soft/shim, and not the runtime's calls.
		nccl := temporary + ".o"
		defer os.Remove(nccl)
		if err := b.cc.run("g++", slices.Concat([]string{"-r", "-nostdlib", "-o", nccl}, parts.objects, parts.shims,
			added, []string{stubs}, wraps)...); err != nil {
			return err
		}
		return b.cc.run("g++", slices.Concat([]string{"-o", temporary, nccl}, soft, flags)...)
	})
}
