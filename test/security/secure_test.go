// SPDX-License-Identifier: Apache-2.0

package security

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ddlemu/ddlemu/test/built"
	"github.com/ddlemu/ddlemu/test/needs"
)

const nobody = 65534

// openTemp makes a folder that other users may read: t.TempDir's is private.
func openTemp(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "ddlemu-security")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o711); err != nil {
		t.Fatal(err)
	}
	return dir
}

// compile builds testdata/init.c with the given mode.
func compile(t *testing.T, dir string, mode os.FileMode) string {
	t.Helper()
	program := filepath.Join(dir, "init")
	if out, err := exec.Command("gcc", "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-o", program, "testdata/init.c",
		"-ldl").CombinedOutput(); err != nil {
		t.Fatalf("gcc: %v\n%s", err, out)
	}
	if err := os.Chmod(program, mode); err != nil {
		t.Fatal(err)
	}
	return program
}

// start runs the program with a rank's environment, and nothing of this test's, and returns its
// stdout and stderr.
func start(t *testing.T, as *syscall.Credential, env []string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "RANK=1", "WORLD_SIZE=2", "MASTER_PORT=29999"}, env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: as}
	cmd.Dir = "/"
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v\n%s", args, err, out)
	}
	return string(bytes.ToValidUTF8(out, []byte("?")))
}

// A setuid program ignores the environment: the user controls it, and the program has more
// privileges than the user.
func TestEnvironmentOfASetuidProgramIsIgnored(t *testing.T) {
	lib := built.Path(t, "lib", "libgoemu.so")
	needs.Root(t, "a program that another user runs as root")
	dir := openTemp(t)
	program := compile(t, dir, 0o755|os.ModeSetuid)
	fabrics := filepath.Join(dir, "fabrics")
	if err := os.Mkdir(fabrics, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(fabrics, nobody, nobody); err != nil {
		t.Fatal(err)
	}
	env := []string{"DDLEMU_DIR=" + fabrics, "DDLEMU_NODE=1", "DDLEMU_PROFILE=ndr400"}
	as := &syscall.Credential{Uid: nobody, Gid: nobody}
	out := start(t, as, env, program, lib)
	if strings.Contains(out, "secure 0\n") {
		t.Skipf("%s ignores setuid bits here", dir)
	}
	for _, want := range []string{"secure 1\n", "hostid unset\n", "init 2\n", "more privileges than its user"} {
		if !strings.Contains(out, want) {
			t.Errorf("the output lacks %q:\n%s", want, out)
		}
	}
	for _, d := range []string{fabrics, "/dev/shm"} {
		files, err := filepath.Glob(filepath.Join(d, "*"))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			if d == fabrics || filepath.Base(f) == "ddlemu-65534" {
				t.Errorf("%s was made", f)
			}
		}
	}
	// Without the setuid bit the same program uses the environment.
	if err := os.Chmod(program, 0o755); err != nil {
		t.Fatal(err)
	}
	own := filepath.Join(openTemp(t), "libgoemu.so")
	text, err := os.ReadFile(lib)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(own, text, 0o755); err != nil {
		t.Fatal(err)
	}
	out = start(t, as, env, program, own)
	for _, want := range []string{"secure 0\n", "hostid ddlemu-node1\n", "init 0\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("without the bit the output lacks %q:\n%s", want, out)
		}
	}
}
