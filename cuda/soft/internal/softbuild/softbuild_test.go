// SPDX-License-Identifier: Apache-2.0

package softbuild

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ddlemu/ddlemu/cuda/soft/setup/debian"
)

func write(t *testing.T, path, text string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestKernelName(t *testing.T) {
	tests := []struct{ symbol, want string }{
		{"_Z35ncclDevKernel_AllReduce_Sum_f32_RING24ncclDevKernelArgsStorageILm4096EE",
			"ncclDevKernel_AllReduce_Sum_f32_RIN"},
		{"_Z36ncclDevKernel_AllReduce_Sum_f32_RING24ncclDevKernelArgs", "ncclDevKernel_AllReduce_Sum_f32_RING"},
		{"_Z32ncclSymkDevKernel_AllGather_LLMC21ncclSymkDevWorkArgs4K", "ncclSymkDevKernel_AllGather_LLMC"},
		{"ncclDevKernel_Generic", "ncclDevKernel_Generic"},
		{"_Z15ncclCommDestroyP8ncclComm", ""},
		{"_Z999ncclDevKernel_X", ""},
		{"_ZN4ncclE", ""},
		{"ncclDevKernelList", ""},
		{"", ""},
	}
	for _, tt := range tests {
		if got := kernelName(tt.symbol); got != tt.want {
			t.Errorf("%q: got %q, want %q", tt.symbol, got, tt.want)
		}
	}
}

func TestDeviceObject(t *testing.T) {
	for member, want := range map[string]bool{
		"all_reduce_sum_f32.cu.o": true, "device_glue.o": true, "enhcompat.o": true,
		"init.o": false, "host_table.cc.o": false, "net.o": false,
	} {
		if deviceObject(member) != want {
			t.Errorf("%s: got %v", member, !want)
		}
	}
}

// Every kernel that is used and not defined has a stub and an entry in the table.
func TestStubs(t *testing.T) {
	dir := t.TempDir()
	const used, defined = "_Z17ncclDevKernel_OneP4Args", "_Z17ncclDevKernel_TwoP4Args"
	object := func(name, assembly string) string {
		source := write(t, filepath.Join(dir, name+".s"), assembly)
		if out, err := exec.Command("as", "-o", source+".o", source).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return source + ".o"
	}
	objects := []string{
		object("a", ".data\n.quad "+used+", "+defined+", someFunction\n"),
		object("b", ".globl "+defined+"\n"+defined+": ret\n"),
	}
	kernels, err := missingKernels(objects)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{used}, kernels); diff != "" {
		t.Fatal(diff)
	}
	out, err := exec.Command("nm", object("stubs", stubAssembly(kernels))).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, symbol := range []string{used, "ddlemu_kernel_table", "ddlemu_kernel_count"} {
		if !strings.Contains(string(out), symbol) {
			t.Errorf("no %s in\n%s", symbol, out)
		}
	}
}

func TestProduce(t *testing.T) {
	product := filepath.Join(t.TempDir(), "lib", "x.so")
	made := 0
	makeIt := func(text string) func(string) error {
		return func(temporary string) error {
			made++
			return os.WriteFile(temporary, []byte(text), 0o644)
		}
	}
	step := func(print, text string, wantMade int) {
		t.Helper()
		if err := produce(product, print, makeIt(text)); err != nil {
			t.Fatal(err)
		}
		if made != wantMade {
			t.Errorf("made %d times, want %d", made, wantMade)
		}
	}
	step("1", "one", 1)
	step("1", "never", 1)
	step("2", "two", 2)
	broken := errors.New("interrupted")
	err := produce(product, "3", func(temporary string) error {
		_ = os.WriteFile(temporary, []byte("half"), 0o644)
		return broken
	})
	if !errors.Is(err, broken) {
		t.Fatal(err)
	}
	if data, err := os.ReadFile(product); err != nil || string(data) != "two" {
		t.Errorf("after an interruption: %q, %v", data, err)
	}
	if left, _ := filepath.Glob(product + ".*"); len(left) > 0 {
		t.Errorf("temporary files remain: %v", left)
	}
	// The old product is still there, but it is built again, also for its old inputs.
	step("2", "two again", 3)
	if err := os.Remove(product); err != nil {
		t.Fatal(err)
	}
	step("2", "two once more", 4)
}

func TestIncludesClosure(t *testing.T) {
	dir := t.TempDir()
	p := func(name string) string { return filepath.Join(dir, name) }
	write(t, p("a/main.cc"),
		"#include <stdio.h>\n#include \"near.h\"\n  # include <far.h>\n// #include \"comment_is_harmless.h\"\n")
	write(t, p("a/near.h"), "#include \"../b/other.h\"\n")
	write(t, p("b/other.h"), "#include \"loop.h\"\n")
	write(t, p("b/loop.h"), "#include \"other.h\"\n")
	write(t, p("inc/far.h"), "int far;\n")
	write(t, p("inc/unused.h"), "\n")
	n := includes{direct: map[string][]string{}}
	got, err := n.closure(p("a/main.cc"), []string{p("inc")})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{p("a/main.cc"), p("a/near.h"), p("b/loop.h"), p("b/other.h"), p("inc/far.h")}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestSources(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"b.cc", "a.cc", "h.h", "README"} {
		write(t, filepath.Join(dir, name), "")
	}
	got, err := sources([]string{".cc"}, dir)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{filepath.Join(dir, "a.cc"), filepath.Join(dir, "b.cc")}, got); diff != "" {
		t.Error(diff)
	}
}

func TestFingerprint(t *testing.T) {
	dir := t.TempDir()
	a := write(t, filepath.Join(dir, "a"), "1")
	seen := map[string]string{}
	check := func(what string, files []string, words ...string) {
		t.Helper()
		print, err := fingerprint(files, words...)
		if err != nil {
			t.Fatal(err)
		}
		if other, ok := seen[print]; ok {
			t.Errorf("%s has the fingerprint of %s", what, other)
		}
		seen[print] = what
	}
	check("file", []string{a})
	check("file and word", []string{a}, "x")
	check("file and two words", []string{a}, "x", "y")
	check("file and one longer word", []string{a}, "xy")
	check("no file", nil)
	write(t, a, "2")
	check("other contents", []string{a})
}

// testBuilder returns a builder with an executor that supports 2.22.3 and 2.29.7, and an archive that does not exist.
func testBuilder(t *testing.T) *builder {
	t.Helper()
	t.Setenv(debian.MirrorVariable, "file:///nonexistent")
	dir := t.TempDir()
	b := &builder{Options: Options{Build: dir}, ctx: context.Background(), con: newConsole(io.Discard)}
	write(t, b.supportsProgram(), "#!/bin/sh\ncase $1 in 22203|22907) echo $1;; esac\n")
	if err := os.MkdirAll(b.cache(), 0o755); err != nil {
		t.Fatal(err)
	}
	return b
}

func (b *builder) fakeUnpacked(t *testing.T, v Version, source string) {
	write(t, filepath.Join(b.unpacked(v), "package.json"), `{"package":"`+string(v)+`","source":"`+source+`"}`)
}

func TestFindPackageInCache(t *testing.T) {
	b := testBuilder(t)
	b.fakeUnpacked(t, "2.22.3-1-1", "trixie")
	b.fakeUnpacked(t, "2.29.7-1-1", "sid")
	b.fakeUnpacked(t, "2.31.0-1-1", "sid")
	for i, want := range []Version{"2.22.3-1-1", "2.29.7-1-1"} {
		c, err := b.findPackage(wantedNCCLs[i])
		if err != nil || c.version != want {
			t.Errorf("%s: got %q, %v, want %q", wantedNCCLs[i].what, c.version, err, want)
		}
	}
}

// One NCCL is enough if it is asked for, unless there are two already.
func TestWantedNCCLs(t *testing.T) {
	one, two := `{"nccl":[{"nccl":"2.22.3"}]}`, `{"nccl":[{"nccl":"2.22.3"},{"nccl":"2.29.7"}]}`
	for _, tc := range []struct {
		oneNCCL bool
		summary string
		want    int
	}{{false, "", 2}, {true, "", 1}, {true, one, 1}, {true, two, 2}, {false, one, 2}} {
		b := testBuilder(t)
		b.OneNCCL = tc.oneNCCL
		if tc.summary != "" {
			write(t, filepath.Join(b.soft(), SummaryFile), tc.summary)
		}
		if got := len(b.wanted()); got != tc.want {
			t.Errorf("%+v: %d NCCLs", tc, got)
		}
	}
}

func TestFindPackageWithoutNetwork(t *testing.T) {
	if testing.Short() {
		t.Skip("runs apt")
	}
	b := testBuilder(t)
	c, err := b.findPackage(wantedNCCLs[0])
	if err == nil {
		t.Errorf("got %q without a cache and without an archive", c.version)
	}
	// If the cache has the package, a failed download is no error.
	b.fakeUnpacked(t, "2.22.3-1-1", "trixie")
	b.Refresh = true
	if c, err = b.findPackage(wantedNCCLs[0]); err != nil || c.version != "2.22.3-1-1" {
		t.Errorf("got %q, %v", c.version, err)
	}
}

// After a refusal the archive is not queried again, unless the executor supports the version now.
func TestRefusalsAreStored(t *testing.T) {
	b := testBuilder(t)
	refused := []Refusal{{Candidate: Candidate{Version: "2.31.0-1-1", Source: "sid"}, Reason: "unknown"}}
	if err := b.writeRefusals(wantedNCCLs[1], refusals{refused}); err != nil {
		t.Fatal(err)
	}
	c, err := b.findPackage(wantedNCCLs[1])
	if err != nil || c.version != "" || len(c.refused) != 1 {
		t.Errorf("got %q, %v, %v", c.version, c.refused, err)
	}
	write(t, b.supportsProgram(), "#!/bin/sh\necho $1\n")
	if stored := (refusals{}); b.readRefusals(wantedNCCLs[1], &stored) {
		t.Error("the refusal is still used although the executor supports the version")
	}
}

// A package file in the cache is unpacked: only its host objects, also those of equal name.
func TestUnpackFile(t *testing.T) {
	b := testBuilder(t)
	tree := t.TempDir()
	write(t, filepath.Join(tree, "DEBIAN/control"),
		"Package: libnccl-dev\nVersion: 2.22.3-1-1\nArchitecture: amd64\nMaintainer: x <x@x.test>\nDescription: x\n")
	write(t, filepath.Join(tree, "usr/include/nccl.h"), "header")
	write(t, filepath.Join(tree, "usr/share/doc/libnccl-dev/copyright"), "license")
	archive := filepath.Join(tree, "usr/lib/x86_64-linux-gnu/libnccl_static.a")
	for _, o := range []string{"a/net.o", "b/net.o", "all_reduce_sum_f32.cu.o", "enhcompat.o",
		"a_very_long_object_name.o"} {
		file := write(t, filepath.Join(t.TempDir(), o), o)
		if err := os.MkdirAll(filepath.Dir(archive), 0o755); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command("ar", "qc", archive, file).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	deb := filepath.Join(b.cache(), "libnccl-dev_2.22.3-1-1_amd64.deb")
	if out, err := exec.Command("dpkg-deb", "--root-owner-group", "-Znone", "-b", tree,
		deb).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	c, err := b.findPackage(wantedNCCLs[0])
	if err != nil || c.source != "file" {
		t.Fatalf("got %+v, %v", c, err)
	}
	objects, err := filepath.Glob(filepath.Join(b.unpacked(c.version), "objects", "*"))
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, object := range objects {
		data, err := os.ReadFile(object)
		if err != nil {
			t.Fatal(err)
		}
		got[filepath.Base(object)] = string(data)
	}
	want := map[string]string{"000-net.o": "a/net.o", "001-net.o": "b/net.o",
		"002-a_very_long_object_name.o": "a_very_long_object_name.o"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if err := os.WriteFile(deb, []byte("damaged"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(b.unpacked(c.version)); err != nil {
		t.Fatal(err)
	}
	if _, err := b.findPackage(wantedNCCLs[0]); err == nil {
		t.Error("a damaged package was accepted")
	}
	if left, _ := filepath.Glob(filepath.Join(b.cache(), "unpack-*")); len(left) > 0 {
		t.Errorf("temporary files remain: %v", left)
	}
}
