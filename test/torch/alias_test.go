// SPDX-License-Identifier: Apache-2.0

package torch

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ddlemu/ddlemu/test/needs"
)

// A program that names gloo and imports nothing of ddlemu gets NCCL by --torch-alias, in each version of PyTorch.
// Without the flag `ddlemu run` says that nothing was emulated, and what to do.
func TestAliasWithoutImport(t *testing.T) {
	t.Parallel()
	const advice = "ddlemu: your job used gloo: no rank took part: its messages crossed no emulated link: " +
		"add --torch-alias gloo, and NCCL carries them\n"
	each(t, func(t *testing.T, python string) {
		for _, tc := range []struct {
			flags []string
			exit  int
		}{
			{nil, 3},
			{[]string{"--torch-alias", "gloo"}, 0},
		} {
			o := job{python: python, flags: tc.flags}.run(t, "alias.py")
			emulated := strings.Contains(o.Stderr, "\nnode0:node1 ") && !strings.Contains(o.Stderr, advice)
			if o.Exit != tc.exit || strings.Count(o.Stdout, " sum 3.0\n") != 2 || emulated != (tc.exit == 0) ||
				!emulated && !strings.HasSuffix(o.Stderr, advice) {
				t.Errorf("%q: exit status %d, want %d\n%s%s", tc.flags, o.Exit, tc.exit, o.Stdout, o.Stderr)
			}
		}
	})
}

// An alias does not reach a program that makes gloo's object itself: the job is told so, with and without the alias.
func TestAliasDoesNotReachClass(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, python string) {
		for _, flags := range [][]string{nil, {"--torch-alias", "gloo"}} {
			o := job{python: python, flags: flags}.run(t, "direct_gloo.py")
			const want = "ddlemu: your job used gloo: no rank took part: the program made ProcessGroupGloo itself"
			if o.Exit != 3 || !strings.Contains(o.Stderr, want) {
				t.Errorf("%q: exit status %d\n%s%s", flags, o.Exit, o.Stdout, o.Stderr)
			}
		}
	})
}

// Python executes the user's own sitecustomize in each process of a job, and the system's if the user has none.
func TestUsersOwnSitecustomize(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	const text = "import sys\nprint('mine is', sys.modules[__name__].__file__)\nfound = True\n"
	if err := os.WriteFile(filepath.Join(folder, "sitecustomize.py"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	const program = "import sitecustomize; print(getattr(sitecustomize, 'found', sitecustomize.__file__))"
	each(t, func(t *testing.T, python string) {
		run := slices.Concat([]string{"env", "PYTHONPATH=" + folder}, ddlemuRun(t), []string{python, "-c", program})
		if o := start(t, run); o.Stdout != "mine is "+filepath.Join(folder, "sitecustomize.py")+"\nTrue\n" {
			t.Errorf("with the user's: %s%s", o.Stdout, o.Stderr)
		}
		alone := start(t, []string{python, "-c", program})
		if alone.Exit != 0 { // this system has none
			return
		}
		if o := start(t, append(ddlemuRun(t), python, "-c", program)); o.Stdout != alone.Stdout {
			t.Errorf("with the system's: %s, want %s%s", o.Stdout, alone.Stdout, o.Stderr)
		}
	})
}

// A torch that does not look for backends gets this one, also if the program has asked before whether torch is there.
func TestBackendFollowsTorch(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	for name, text := range map[string]string{
		"torch.py":        "class distributed:\n    is_available = staticmethod(lambda: True)\n__version__ = '2.1.0'\n",
		"ddlemu_torch.py": "print('loaded')\n",
	} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, program := range []string{"import torch", "import importlib.util as u; u.find_spec('torch'); import torch"} {
		cmd := exec.CommandContext(t.Context(), needs.Program(t, "python3"), "-c", program)
		cmd.Env = append(os.Environ(), "PYTHONPATH="+folder+":../../cuda/torch", "PYTHONDONTWRITEBYTECODE=1")
		if out, err := cmd.CombinedOutput(); err != nil || string(out) != "loaded\n" {
			t.Errorf("%s: %v\n%s", program, err, out)
		}
	}
}
