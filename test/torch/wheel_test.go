// SPDX-License-Identifier: Apache-2.0

package torch

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ddlemu/ddlemu/test/built"
	"github.com/ddlemu/ddlemu/test/needs"
	"github.com/ddlemu/ddlemu/test/world"
)

// The wheel is all that a job needs. pip removes all of it again.
func TestWheel(t *testing.T) {
	t.Parallel()
	wheel := buildWheel(t)
	for _, want := range []string{"ddlemu/bin/ddlemu", "ddlemu_torch/__init__.py", ".dist-info/licenses/LICENSE"} {
		if names := output(t, "python3", "-m", "zipfile", "--list", wheel); !strings.Contains(names, want) {
			t.Errorf("%s is not in the wheel", want)
		}
	}
	each(t, func(t *testing.T, python string) {
		v := newVenv(t, python)
		v.install(t, wheel)
		site := v.sitePackages(t)

		// `python -m ddlemu` finds all parts in the wheel.
		job := append(launcher(t, v.python, 2), world.Absolute(t, "testdata", "installed.py"))
		o := start(t, slices.Concat([]string{v.python, "-m", "ddlemu", "run", "--profile", "eth10", "--nodes", "2"},
			virtual, []string{"--"}, job))
		from := "backend " + site + "/ddlemu/torch/ddlemu_torch plugin " + site + "/ddlemu/lib/libgoemu.so\n"
		if o.Exit != 0 || strings.Count(o.Stdout, from) != 2 || !strings.Contains(o.Stderr, "verdict: VALID") {
			t.Errorf("python -m ddlemu run: exit status %d\n%s%s", o.Exit, o.Stdout, o.Stderr)
		}

		// Another ddlemu comes first. The backend is registered once.
		o = start(t,
			append([]string{built.Path(t, "bin", "ddlemu"), "run", "--profile", "loopback", "--nodes", "2", "--"},
				job...))
		from = "backend " + built.Path(t, "torch", "ddlemu_torch") + " plugin " + built.Path(t, "lib", "libgoemu.so") +
			"\n"
		if o.Exit != 0 || strings.Count(o.Stdout, from) != 2 {
			t.Errorf("ddlemu run: exit status %d\n%s%s", o.Exit, o.Stdout, o.Stderr)
		}

		// Without `ddlemu run` one line says what to do.
		o = start(t, append(launcher(t, v.python, 1), world.Absolute(t, "testdata", "installed.py")))
		const next = "ddlemu: DDLEMU_TORCH_NCCL is not set: start the program with `python -m ddlemu run -- COMMAND`, which sets it"
		if o.Exit == 0 || !strings.Contains(o.Stderr, next) {
			t.Errorf("without ddlemu run: exit status %d\n%s%s", o.Exit, o.Stdout, o.Stderr)
		}

		v.pip(t, "uninstall", "--yes", "ddlemu")
		err := filepath.WalkDir(v.folder, func(path string, _ fs.DirEntry, err error) error {
			if strings.Contains(strings.ToLower(path[len(v.folder):]), "ddlemu") {
				t.Errorf("pip has left %s", path)
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	})
}

// buildWheel builds the wheel of build/ in a folder of the test.
func buildWheel(t *testing.T) string {
	t.Helper()
	readPrograms(t, filepath.Join("..", "..", "cuda", "torch", "wheel"))
	folder := t.TempDir()
	build := filepath.Dir(built.Path(t, "torch"))
	path := strings.TrimSpace(output(t, "../../cuda/torch/wheel/build.sh", build, "v1.2.3-45-g0123456789ab", folder))
	want := filepath.Join(folder, "ddlemu-1.2.3.post45+g0123456789ab-py3-none-manylinux_2_*_x86_64.whl")
	if match, err := filepath.Match(want, path); err != nil || !match {
		t.Fatalf("the wheel is %q, want %q", path, want)
	}
	return path
}

// venv is an environment of Python's that also sees the packages of another interpreter.
type venv struct{ folder, python string }

func newVenv(t *testing.T, python string) venv {
	t.Helper()
	v := venv{folder: filepath.Join(t.TempDir(), "environment")}
	v.python = filepath.Join(v.folder, "bin", "python")
	output(t, python, "-m", "venv", "--without-pip", v.folder)
	const file = "import os, sys; print(os.stat(os.path.realpath(sys.executable))[1:3])"
	if output(t, python, "-c", file) != output(t, v.python, "-c", file) {
		t.Skipf(
			"SKIPPED: %s runs in a root folder of its own, and an environment of that Python does not work outside of it", python)
	}
	torch := output(t, python, "-c", "import torch; print(torch.__file__)")
	line := filepath.Dir(filepath.Dir(torch)) + "\n"
	if err := os.WriteFile(filepath.Join(v.sitePackages(t), "torch.pth"), []byte(line), 0o600); err != nil {
		t.Fatal(err)
	}
	return v
}

func (v venv) sitePackages(t *testing.T) string {
	t.Helper()
	return strings.TrimSpace(output(t, v.python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"))
}

// pip runs pip of the machine's Python on the environment.
func (v venv) pip(t *testing.T, args ...string) {
	t.Helper()
	needs.Program(t, "pip3")
	output(t, "python3", append([]string{"-m", "pip", "--python", v.python}, args...)...)
}

func (v venv) install(t *testing.T, wheel string) {
	t.Helper()
	v.pip(t, "install", "--no-index", "--no-deps", wheel)
}
