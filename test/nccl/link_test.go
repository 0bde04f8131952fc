// SPDX-License-Identifier: Apache-2.0

package nccl

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/ddlemu/ddlemu/test/built"
)

// versions are the NCCLs of the software CUDA.
var versions = []string{"2.22", "2.29"}

// buildFor compiles source against one version's header and library, as docs/softcuda.md says.
func buildFor(t *testing.T, version, source string) string {
	t.Helper()
	bin := filepath.Join(t.TempDir(), "program")
	include, lib := built.Path(t, "softcuda", "include"), built.Path(t, "softcuda", "lib")
	cmd := exec.Command("g++", "-Wall", "-Werror", source, "-Wl,--no-undefined",
		"-I"+filepath.Join(include, "nccl-"+version), "-I"+include,
		"-L"+filepath.Join(lib, "nccl-"+version), "-L"+lib, "-lnccl", "-lcudart", "-o", bin)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v:\n%s", err, out)
	}
	return bin
}

// A program that needs functions of 2.29 is built and run with it.
func TestProgramOfANewerNCCL(t *testing.T) {
	t.Parallel()
	bin := buildFor(t, "2.29", "testdata/since229.cc")
	out, err := ddlemu(t.Context(), t, folder(t), nil, "run", "--profile", "eth10", "--nodes", "2", "--clock",
		"virtual", "--soft-cuda", "--nccl", "2.29", "--", bin).CombinedOutput()
	if err != nil {
		t.Fatalf("%v:\n%s", err, out)
	}
	for _, want := range []string{"rank 0: built for 229", "rank 1: built for 229", "verdict: VALID"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if got := regexp.MustCompile(`(?m)built for (\d+), runs (\d+), all right$`).FindAllStringSubmatch(string(out),
		-1); len(got) != 2 ||
		got[0][1] != got[0][2] || got[1][1] != got[1][2] {
		t.Errorf("two ranks, each built for what it runs:\n%s", out)
	}
}

// A version's library has every function of its header, and the one for 2.22 lacks those that came later: each is the
// library of its version.
func TestLibraryHasAllOfItsHeader(t *testing.T) {
	t.Parallel()
	functions := map[string][]string{}
	for _, version := range versions {
		header, err := os.ReadFile(built.Path(t, "softcuda", "include", "nccl-"+version, "nccl.h"))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(
			`(?m)^\s*(?:ncclResult_t|const char\s*\*)\s*(p?nccl\w+)\s*\(`).FindAllSubmatch(header, -1) {
			functions[version] = append(functions[version], string(m[1]))
		}
		if len(functions[version]) < 60 {
			t.Fatalf("%d functions in the header of %s", len(functions[version]), version)
		}
		code := "#include <nccl.h>\nvoid *all[] = {\n"
		for _, f := range functions[version] {
			code += fmt.Sprintf("\t(void *)&%s,\n", f)
		}
		source := filepath.Join(t.TempDir(), "all.cc")
		if err := os.WriteFile(source, []byte(code+"};\nint main() { return all[0] == nullptr; }\n"),
			0o600); err != nil {
			t.Fatal(err)
		}
		bin := buildFor(t, version, source)
		run := exec.Command(bin)
		run.Env = append(os.Environ(), "LD_LIBRARY_PATH="+built.Path(t, "softcuda", "lib", "nccl-"+version)+":"+
			built.Path(t, "softcuda", "lib"))
		if out, err := run.CombinedOutput(); err != nil {
			t.Errorf("%s: %v: %s", version, err, out)
		}
	}
	if old, latest := functions["2.22"], functions["2.29"]; slices.Contains(old, "ncclAlltoAll") ||
		!slices.Contains(latest, "ncclAlltoAll") {
		t.Errorf("ncclAlltoAll is a function of 2.29 only; 2.22 has %q", old)
	}
}
