// SPDX-License-Identifier: Apache-2.0

package softbuild

import (
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sort"
	"strconv"
	"strings"
)

// NCCL's host code uses the addresses of its kernels. The kernels are defined in objects with device code, which
// relinking leaves out. Each kernel gets a stub instead: one instruction, which traps if it is called.

// deviceObject says whether relinking leaves out a member of NCCL's archive: it has device code, or (enhcompat.o) weak
// CUDA functions that return an error and would replace the functions of the software runtime.
func deviceObject(member string) bool {
	return strings.HasSuffix(member, ".cu.o") || member == "device_glue.o" || member == "enhcompat.o"
}

// extractObjects extracts the host objects of an archive into dir. It adds a number to their names, because several
// members of NCCL's archive have the same name. ar's modifier N selects one of them.
func extractObjects(ctx context.Context, archive, dir string) error {
	members, err := exec.CommandContext(ctx, "ar", "t", archive).Output()
	if err != nil {
		return fmt.Errorf("list %s: %w", archive, err)
	}
	instances := map[string]int{}
	for i, name := range slices.DeleteFunc(strings.Fields(string(members)), deviceObject) {
		instances[name]++
		ar := exec.CommandContext(ctx, "ar", "xN", "--output="+dir, strconv.Itoa(instances[name]), archive, name)
		if out, err := ar.CombinedOutput(); err != nil {
			return fmt.Errorf("extract %s: %w: %s", name, err, out)
		}
		if err := os.Rename(filepath.Join(dir, name), filepath.Join(dir, fmt.Sprintf("%03d-%s", i, name))); err != nil {
			return fmt.Errorf("number %s: %w", name, err)
		}
	}
	if len(instances) == 0 {
		return fmt.Errorf("no host objects in %s", archive)
	}
	return nil
}

// kernelName returns the name of a kernel without mangling (_Z17ncclDevKernel_Foo20ncclDevKernelArgs...), or "" if the
// symbol is no kernel.
func kernelName(symbol string) string {
	name := symbol
	if rest, ok := strings.CutPrefix(symbol, "_Z"); ok {
		digits := strings.IndexFunc(rest, func(r rune) bool { return r < '0' || r > '9' })
		if digits <= 0 {
			return ""
		}
		length, err := strconv.Atoi(rest[:digits])
		if err != nil || length > len(rest)-digits {
			return ""
		}
		name = rest[digits : digits+length]
	}
	if strings.HasPrefix(name, "ncclDevKernel_") || strings.HasPrefix(name, "ncclSymkDevKernel_") ||
		strings.HasPrefix(name, "ncclSymDevKernel_") {
		return name
	}
	return ""
}

// missingKernels returns the kernels that the objects use but do not define, sorted.
func missingKernels(objects []string) ([]string, error) {
	used, defined := map[string]bool{}, map[string]bool{}
	for _, path := range objects {
		f, err := elf.Open(path)
		if err != nil {
			return nil, fmt.Errorf("read object %s: %w", path, err)
		}
		symbols, err := f.Symbols()
		f.Close()
		if err != nil && !errors.Is(err, elf.ErrNoSymbols) {
			return nil, fmt.Errorf("read object %s: %w", path, err)
		}
		for _, s := range symbols {
			if kernelName(s.Name) == "" {
				continue
			}
			if s.Section == elf.SHN_UNDEF {
				used[s.Name] = true
			} else {
				defined[s.Name] = true
			}
		}
	}
	var out []string
	for name := range used {
		if !defined[name] {
			out = append(out, name)
		}
	}
	sort.Strings(out)
	return out, nil
}

// stubAssembly returns the source of the stubs, and of the table that shim/register.cc registers.
func stubAssembly(symbols []string) string {
	var code, names, table strings.Builder
	code.WriteString("# Generated: stubs of NCCL's kernels.\n.text\n")
	for i, symbol := range symbols {
		fmt.Fprintf(&code, ".globl %[1]s\n.hidden %[1]s\n.type %[1]s, @function\n%[1]s: ud2\n", symbol)
		fmt.Fprintf(&names, ".Lname%d: .asciz %q\n", i, kernelName(symbol))
		fmt.Fprintf(&table, ".quad %s, .Lname%d\n", symbol, i)
	}
	return code.String() + ".section .rodata\n" + names.String() +
		".section .data.rel.ro, \"aw\"\n.balign 8\n.globl ddlemu_kernel_table\n.hidden ddlemu_kernel_table\n" +
		"ddlemu_kernel_table:\n" + table.String() +
		".globl ddlemu_kernel_count\n.hidden ddlemu_kernel_count\nddlemu_kernel_count: .quad " +
		strconv.Itoa(len(symbols)) + "\n" +
		".section .note.GNU-stack, \"\", @progbits\n"
}
