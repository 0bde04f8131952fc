// SPDX-License-Identifier: Apache-2.0

package bpf

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/ddlemu/ddlemu/test/needs"
)

// The committed object is what shape.c compiles to.
func TestObject(t *testing.T) {
	for _, name := range []string{"clang-19", "llvm-strip-19", "/usr/include/bpf/bpf_helpers.h"} {
		needs.Optional(t, name)
	}
	dir := t.TempDir()
	cmd := exec.Command("go", "generate", ".")
	cmd.Env = append(os.Environ(), "BPF_CLANG=clang-19", "BPF_STRIP=llvm-strip-19", "BPF_OUTPUT="+dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("compile shape.c: %v\n%s", err, out)
	}
	for _, name := range []string{"shape_bpfel.o", "shape_bpfel.go"} {
		want, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s is not what shape.c compiles to: run `make bpf`", name)
		}
	}
}
