// SPDX-License-Identifier: Apache-2.0

package torch

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ddlemu/ddlemu/test/needs"
	"github.com/ddlemu/ddlemu/test/world"
)

// layers returns what testdata/layers.py says of the imports of a package.
func layers(t *testing.T, readme, folder string) string {
	t.Helper()
	readPrograms(t, folder, filepath.Dir(readme))
	out, err := exec.CommandContext(t.Context(), needs.Program(t, "python3"),
		world.Absolute(t, "testdata", "layers.py"), readme, folder).CombinedOutput()
	if got := strings.TrimSpace(string(out)); (err != nil) == (got != "") {
		return got
	}
	t.Fatalf("%v\n%s", err, out)
	return ""
}

// A file of the backend imports only files that come after it in the table of its README. So no circle of files can be.
func TestLayers(t *testing.T) {
	t.Parallel()
	backend := filepath.Join("..", "..", "cuda", "torch")
	if got := layers(t, filepath.Join(backend, "README.md"), filepath.Join(backend, "ddlemu_torch")); got != "" {
		t.Error(got)
	}
}

// The check finds an import of a higher file wherever it stands, and a table that does not name each file once.
func TestLayersOfOtherPackages(t *testing.T) {
	t.Parallel()
	const table = "| layer | files |\n| --- | --- |\n| high | `__init__.py`, `a.py` |\n| low | `b.py` |\n"
	for _, c := range []struct{ name, table, a, b, want string }{
		{"lower", table, "from . import b\nfrom .b import f\nimport p.b\nimport os", "", ""},
		{"higher", table, "", "from .a import f", "b.py:1: it imports a.py"},
		{"module", table, "", "from . import a", "b.py:1: it imports a.py"},
		{"whole name", table, "", "import p.a as a", "b.py:1: it imports a.py"},
		{"from whole name", table, "", "from p.a import f", "b.py:1: it imports a.py"},
		{"in a function", table, "", "def f():\n    from . import a", "b.py:2: it imports a.py"},
		{"for types", table, "", "if TYPE_CHECKING:\n    from .a import A", "b.py:2: it imports a.py"},
		{"package", table, "from . import f", "", "a.py:1: it imports __init__.py"},
		{"itself", table, "from . import a", "", "a.py:1: it imports a.py"},
		{"not listed", strings.ReplaceAll(table, ", `a.py`", ""), "", "", "a.py: it is 0 times in the table"},
		{"listed twice", table + "| lower | `a.py` |\n", "", "", "a.py: it is 2 times in the table"},
		{"not there", table + "| lower | `c.py` |\n", "", "",
			"c.py: it is 1 times in the table, and 0 times in the folder"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			folder := filepath.Join(t.TempDir(), "p")
			readme := filepath.Join(folder, "README.md")
			if err := os.Mkdir(folder, 0o700); err != nil {
				t.Fatal(err)
			}
			for path, text := range map[string]string{"__init__.py": "", "a.py": c.a, "b.py": c.b,
				"README.md": c.table} {
				if err := os.WriteFile(filepath.Join(folder, path), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if got := layers(t, readme, folder); !strings.HasPrefix(got, c.want) || (got == "") != (c.want == "") {
				t.Errorf("it says %q, and not %q", got, c.want)
			}
		})
	}
}
