// SPDX-License-Identifier: Apache-2.0

package install

import (
	"archive/zip"
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/ddlemu/ddlemu/test/built"
	"github.com/ddlemu/ddlemu/test/needs"
)

var (
	wheelOnce sync.Once
	wheelPath string
	wheelErr  error
)

// wheel is the wheel of build/, which is built once for all tests.
func wheel(t *testing.T) string {
	t.Helper()
	build := filepath.Dir(built.Path(t, "torch"))
	wheelOnce.Do(func() {
		var out []byte
		out, wheelErr = exec.Command("../../cuda/torch/wheel/build.sh", build, "v0.1.0", shared).Output()
		wheelPath = strings.TrimSpace(string(out))
	})
	if wheelErr != nil {
		t.Fatal(wheelErr)
	}
	return wheelPath
}

// The platform in the wheel's name is the one that PyPA's own tool finds, so PyPI takes the wheel, and pip installs it
// only where it works. Each NCCL in it has upstream's licence.
func TestWheelCanBePublished(t *testing.T) {
	t.Parallel()
	wheel := wheel(t)
	name := regexp.MustCompile(`^ddlemu-0\.1\.0-py3-none-(manylinux_2_\d+_x86_64)\.whl$`)
	tag := name.FindStringSubmatch(filepath.Base(wheel))
	if tag == nil {
		t.Fatalf("the wheel is %s", wheel)
	}
	archive, err := zip.OpenReader(wheel)
	if err != nil {
		t.Fatal(err)
	}
	defer archive.Close()
	nccls, err := fs.Glob(archive, "ddlemu/softcuda/lib/nccl-*")
	if err != nil || len(nccls) == 0 {
		t.Fatalf("NCCLs %q, %v", nccls, err)
	}
	for _, nccl := range nccls {
		name := filepath.Base(nccl)
		got, err := fs.ReadFile(archive, "ddlemu-0.1.0.dist-info/licenses/LICENSE."+name)
		if err != nil {
			t.Error(err)
		}
		want, err := os.ReadFile("../../cuda/soft/licenses/" + name + ".txt")
		if err != nil || string(got) != string(want) {
			t.Errorf("the licence of %s is not upstream's (%v)", name, err)
		}
	}

	lib, err := filepath.Abs("../../build/auditwheel")
	if err != nil {
		t.Fatal(err)
	}
	needs.PyPI(t, filepath.Join(lib, "version"))
	cmd := exec.CommandContext(t.Context(), needs.Program(t, "python3"), "-m", "auditwheel", "show", "--json", wheel)
	cmd.Env = append(os.Environ(), "PYTHONPATH="+lib)
	out, err := cmd.Output()
	var found struct {
		Tag string `json:"overall_tag"`
	}
	if err != nil || json.Unmarshal(out, &found) != nil {
		t.Fatalf("auditwheel: %v\n%s", err, out)
	}
	if found.Tag != tag[1] {
		t.Errorf("auditwheel finds %s, the wheel's name says %s", found.Tag, tag[1])
	}
}

// A release line of NCCL whose licence is not known is in no package.
func TestUnknownLicenceIsRefused(t *testing.T) {
	build := t.TempDir()
	if err := os.MkdirAll(filepath.Join(build, "softcuda", "lib", "nccl-9.99"), 0o700); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("../../.ci/ncclnotices", build, t.TempDir()).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "has no licence of nccl-9.99") {
		t.Errorf("%v: %s", err, out)
	}
}

// Files say which glibc and which libstdc++ they need.
func TestWhatFilesNeed(t *testing.T) {
	folder := t.TempDir()
	for _, tc := range []struct{ code, want string }{
		{"#include <cstring>\nint f(char *a, char *b) { memcpy(a, b, 100000); return strlen(a); }", `2\.14 11`},
		{"#include <cstdlib>\nint f() { return arc4random(); }", `2\.36 11`},
		{"#include <condition_variable>\n#include <cstring>\nint f(std::condition_variable &c, " +
			"std::unique_lock<std::mutex> &l, char *a) { c.wait(l); return strlen(a); }", `2\.\d+(\.\d+)? 12`},
	} {
		source, library := filepath.Join(folder, "a.cc"), filepath.Join(folder, "a.so")
		if err := os.WriteFile(source, []byte(tc.code), 0o600); err != nil {
			t.Fatal(err)
		}
		build := exec.Command("g++", "-O0", "-fno-builtin", "-shared", "-fPIC", "-o", library, source)
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		got, err := exec.Command("../../.ci/libc", source, library).CombinedOutput()
		if err != nil || !regexp.MustCompile("^"+tc.want+"\n$").Match(got) {
			t.Errorf("%s: %q, %v, want %s", tc.code, got, err, tc.want)
		}
	}
}
