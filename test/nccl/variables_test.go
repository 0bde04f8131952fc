// SPDX-License-Identifier: Apache-2.0

package nccl

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/ddlemu/ddlemu/shaper/nccl/variables"
	"github.com/ddlemu/ddlemu/test/built"
)

// The list of NCCL's variables has every name in the text of each library, and no other.
func TestListOfVariables(t *testing.T) {
	name := regexp.MustCompile(`\bNCCL_[A-Z0-9_]*[A-Z0-9]`)
	for _, version := range variables.Versions {
		release := version[:strings.LastIndex(version, ".")]
		library, err := os.ReadFile(built.Path(t, "softcuda", "lib", "nccl-"+release, "libnccl.so.2"))
		if err != nil {
			t.Fatal(err)
		}
		found := map[string]bool{}
		for _, n := range name.FindAll(library, -1) {
			found[string(n)] = true
		}
		if len(found) < 100 {
			t.Fatalf("NCCL %s: %d names", version, len(found))
		}
		for _, v := range variables.List() {
			if in := slices.Contains(v.In, version); in != found[v.Name] {
				t.Errorf("NCCL %s, %s: in the list %v, in the library %v", version, v.Name, in, found[v.Name])
			}
			delete(found, v.Name)
		}
		for n := range found {
			t.Errorf("NCCL %s: %s is not in the list: say in shaper/nccl/variables/nccl.tsv what it does", version, n)
		}
	}
}

// Each variable of ddlemu that a source file reads is known.
func TestListOfOwnVariables(t *testing.T) {
	name := regexp.MustCompile(`"(DDLEMU_[A-Z0-9_]*[A-Z0-9])["=]`)
	read := 0
	for _, folder := range []string{"cmd", "configs", "cuda", "intercept", "nccl-plugin", "shaper"} {
		err := filepath.WalkDir(filepath.Join("..", "..", folder), func(path string, d fs.DirEntry, err error) error {
			ends := []string{".go", ".c", ".cc", ".h", ".py"}
			if err != nil || d.IsDir() || strings.HasSuffix(path, "_test.go") || !slices.Contains(ends, filepath.Ext(path)) || strings.Contains(path, "testdata") {
				return err
			}
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			for _, m := range name.FindAllSubmatch(text, -1) {
				read++
				for _, note := range variables.Notes(variables.Situation{Soft: true, Timeless: true, Kernel: true}, []variables.Setting{{Name: string(m[1]), Value: "1"}}) {
					t.Errorf("%s: %s", path, note)
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if read < 20 {
		t.Errorf("%d variables found", read)
	}
}
