// SPDX-License-Identifier: Apache-2.0

package softbuild

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Package is a relinked NCCL in build/softcuda.
type Package struct {
	// NCCL is the version: "2.22.3".
	NCCL string `json:"nccl"`
	// Package is the version of Debian's package: "2.22.3-1-1".
	Package string `json:"package"`
	// Source is the suite of the package, or "file" if a user put the package into the cache.
	Source string `json:"source"`
	// Dir is the folder of libnccl.so.2, relative to build/softcuda: "lib/nccl-2.22".
	Dir string `json:"dir"`
}

// unpack extracts from a .deb what relinking needs: nccl.h, the host objects and the copyright. It adds them to the
// cache atomically.
func (b *builder) unpack(deb string, v Version, source string) error {
	b.con.print("unpacking NCCL %s", v)
	temporary, err := os.MkdirTemp(b.cache(), "unpack-")
	if err != nil {
		return fmt.Errorf("make folder: %w", err)
	}
	defer os.RemoveAll(temporary)
	whole, needed := filepath.Join(temporary, "whole"), filepath.Join(temporary, "needed")
	if out, err := exec.CommandContext(b.ctx, "dpkg-deb", "-x", deb, whole).CombinedOutput(); err != nil {
		return fmt.Errorf("unpack %s: %w: %s", deb, err, out)
	}
	about, err := json.Marshal(Package{Package: string(v), Source: source})
	if err != nil {
		return fmt.Errorf("describe package: %w", err)
	}
	objects := filepath.Join(needed, "objects")
	if err := os.MkdirAll(objects, 0o755); err != nil {
		return fmt.Errorf("make folder: %w", err)
	}
	if err := errors.Join(
		os.WriteFile(filepath.Join(needed, "package.json"), about, 0o644),
		os.Rename(filepath.Join(whole, "usr/include/nccl.h"), filepath.Join(needed, "nccl.h")),
		os.Rename(filepath.Join(whole, "usr/share/doc/libnccl-dev/copyright"), filepath.Join(needed, "copyright")),
		extractObjects(b.ctx, filepath.Join(whole, "usr/lib/x86_64-linux-gnu/libnccl_static.a"), objects),
	); err != nil {
		return fmt.Errorf("unpack %s: %w", deb, err)
	}
	return moveDir(needed, b.unpacked(v))
}

func moveDir(from, to string) error {
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return fmt.Errorf("make folder: %w", err)
	}
	if err := os.RemoveAll(to); err != nil {
		return fmt.Errorf("replace folder: %w", err)
	}
	if err := os.Rename(from, to); err != nil {
		return fmt.Errorf("move into place: %w", err)
	}
	return nil
}

// parts are what an NCCL is linked from, besides the software CUDA.
type parts struct {
	objects []string // NCCL's, with host code
	shims   []string
	hash    string // of all of them
}

// partsOf compiles the functions added to an NCCL and finds its objects.
func (b *builder) partsOf(v Version, number int) (parts, error) {
	shims, err := b.shims(v, number)
	if err != nil {
		return parts{}, err
	}
	objects, err := filepath.Glob(filepath.Join(b.unpacked(v), "objects", "*"))
	if err != nil || len(objects) == 0 {
		return parts{shims: shims}, errors.Join(fmt.Errorf("find the objects of NCCL %s in the cache", v), err)
	}
	// The objects of a package version never change, so the version stands for them.
	hash, err := fingerprint(shims, b.cc.version, string(v), strconv.Itoa(len(objects)), stubAssembly(nil))
	return parts{objects, shims, hash}, err
}

// relink links NCCL's host objects against the software runtime, and with it for guests. It returns the objects that it
// has compiled.
func (b *builder) relink(v Version, source string) (Package, []string, error) {
	number, err := v.NCCL()
	if err != nil {
		return Package{}, nil, err
	}
	p := Package{
		NCCL:    fmt.Sprintf("%d.%d.%d", number/10000, number/100%100, number%100),
		Package: string(v), Source: source, Dir: "lib/nccl-" + v.Line(),
	}
	parts, err := b.partsOf(v, number)
	if err != nil {
		return p, parts.shims, err
	}
	if err := b.linkNCCL(p, parts); err != nil {
		return p, parts.shims, err
	}
	if _, err := os.Stat(b.guest(guestLibrary(v.Line()))); b.OneNCCL && err != nil {
		return p, parts.shims, nil
	}
	added, err := b.linkGuest(v.Line(), parts)
	return p, append(parts.shims, added...), err
}

// linkNCCL links an NCCL that finds the runtime beside it.
func (b *builder) linkNCCL(p Package, parts parts) error {
	product := filepath.Join(b.soft(), p.Dir, ncclLibrary)
	// binutils 2.40 relaxes GOT loads in Debian's newest objects to wrong code.
	flags := slices.Concat(soname(ncclLibrary), wraps(),
		[]string{"-Wl,--no-relax", "-Wl,-rpath,$ORIGIN:$ORIGIN/..", "-Wl,--enable-new-dtags"})
	hash, err := fingerprint(nil, parts.hash, strings.Join(flags, " "))
	if err != nil {
		return err
	}
	return produce(product, hash, func(temporary string) error {
		b.con.print("relinking NCCL %s against the software CUDA", p.NCCL)
		stubs, err := b.stubs(parts.objects, temporary)
		if err != nil {
			return err
		}
		defer os.Remove(stubs)
		args := slices.Concat([]string{"-o", temporary}, parts.objects, parts.shims,
			[]string{stubs, b.lib(runtimeLibrary)}, flags)
		return b.cc.run("g++", append(args, "-lpthread", "-ldl", "-lrt")...)
	})
}

// wraps are the linker's flags that lead NCCL's calls of these functions to cuda/soft/shim.
func wraps() (flags []string) {
	for _, symbol := range []string{
		"sched_yield", "pthread_mutex_trylock", "pthread_cond_wait", "pthread_cond_signal", "pthread_cond_broadcast",
		"pthread_create", "pthread_join", "usleep", "recv", "accept", "poll", "fallocate", "mmap", "memset", "calloc",
		"free", "atexit", "__cxa_atexit",
		"_Z10getPidHashv", "_Z16ncclLaunchKernelP8ncclCommP14ncclKernelPlan",
		"_Z18ncclShmemAllgatherP8ncclCommP17ncclShmemCollBuffPvS3_m",
		"_Z27ncclNvlsLocalRegisterBufferP8ncclCommPKvPvmmPiPS3_S5_",
		"_Z17ncclTopoGetSystemP8ncclCommPP14ncclTopoSystem", "_Z17ncclTopoGetSystemP8ncclCommPP14ncclTopoSystemPKc",
		"_ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE", "_ZNSt18condition_variable10notify_oneEv",
		"_ZNSt18condition_variable10notify_allEv",
		"_ZNSt6thread15_M_start_threadESt10unique_ptrINS_6_StateESt14default_deleteIS1_EEPFvvE", "_ZNSt6thread4joinEv",
	} {
		flags = append(flags, "-Wl,--wrap="+symbol)
	}
	return flags
}

// shims compiles the functions that are added to NCCL.
func (b *builder) shims(v Version, number int) ([]string, error) {
	all, err := sources([]string{".cc"}, b.src("shim"))
	if err != nil {
		return nil, err
	}
	folders := []string{b.src("include"), b.unpacked(v)}
	return b.cc.compile("the functions added to NCCL",
		units(all, folders, []string{"-DDDLEMU_NCCL_VERSION=" + strconv.Itoa(number)}))
}

// stubs assembles the stubs of the kernels and returns the object, which is next to the product.
func (b *builder) stubs(objects []string, product string) (string, error) {
	kernels, err := missingKernels(objects)
	if err != nil {
		return "", err
	}
	if len(kernels) == 0 {
		return "", errors.New("relink NCCL: its objects use no kernels")
	}
	source, object := product+".s", product+".stubs.o"
	defer os.Remove(source)
	if err := os.WriteFile(source, []byte(stubAssembly(kernels)), 0o644); err != nil {
		return "", fmt.Errorf("write stubs: %w", err)
	}
	return object, b.cc.run("as", "-o", object, source)
}
