// SPDX-License-Identifier: Apache-2.0

package locate

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// NVTX loads the plugin unless the user has named another library. The same one by another path is no other.
func TestInjection(t *testing.T) {
	dir := t.TempDir()
	plugin, link, tool := filepath.Join(dir, "libgoemu.so"), filepath.Join(dir, "libnccl-net.so"),
		filepath.Join(dir, "tool.so")
	for _, path := range []string{plugin, tool} {
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(plugin, link); err != nil {
		t.Fatal(err)
	}
	for set, want := range map[string]struct {
		env   []string
		users string
	}{
		"":         {env: []string{"NVTX_INJECTION64_PATH=" + plugin}},
		plugin:     {},
		link:       {},
		tool:       {users: tool},
		"tool.so":  {users: "tool.so"},
		dir + "/x": {users: dir + "/x"},
	} {
		env, users := Layout{Plugin: dir}.Injection(func(string) string { return set })
		if !slices.Equal(env, want.env) || users != want.users {
			t.Errorf("%q: %q, user's %q", set, env, users)
		}
	}
}

// A guest's NCCL is found by its release line, and an error says which ones there are.
func TestGuest(t *testing.T) {
	l := Layout{SoftCUDA: t.TempDir()}
	if _, err := l.Guest(""); err == nil ||
		!strings.Contains(err.Error(), "the NCCL for guests is not in "+l.SoftCUDA+": run `make build`") {
		t.Errorf("without a build: %v", err)
	}
	dir := filepath.Join(l.SoftCUDA, "lib", "guest")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Guest("2.22"); err == nil || !strings.Contains(err.Error(), "it has none") {
		t.Errorf("in an empty folder: %v", err)
	}
	path := filepath.Join(dir, "libddlemu-nccl-2.22.so")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, version := range []string{"", "2.22"} {
		if got, err := l.Guest(version); got != path || err != nil {
			t.Errorf("%q: %q, %v", version, got, err)
		}
	}
	if _, err := l.Guest("2.29"); err == nil ||
		!strings.Contains(err.Error(), "NCCL 2.29 for guests is not in "+dir+": it has 2.22; run `make build`") {
		t.Errorf("2.29: %v", err)
	}
}

// A package without the software CUDA has no NCCL for it, and one with a part of it says which.
func TestSoftVersions(t *testing.T) {
	l := Layout{SoftCUDA: t.TempDir()}
	if got := l.SoftVersions(); len(got) != 0 {
		t.Errorf("in an empty folder: %q", got)
	}
	path := filepath.Join(l.SoftCUDA, "lib", "nccl-2.29", "libnccl.so.2")
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	if got := l.SoftVersions(); !slices.Equal(got, []string{"2.29"}) {
		t.Errorf("with 2.29: %q", got)
	}
}

// PyTorch gets the folder of the backend before those that the user has named.
func TestTorchEnv(t *testing.T) {
	none := func(string) string { return "" }
	l := Layout{SoftCUDA: t.TempDir(), Torch: filepath.Join(t.TempDir(), "torch")}
	if env, err := l.TorchEnv("", none); env != nil || err != nil {
		t.Errorf("without the backend: %q, %v", env, err)
	}
	guest := filepath.Join(l.SoftCUDA, "lib", "guest", "libddlemu-nccl-2.22.so")
	if err := errors.Join(os.Mkdir(l.Torch, 0o700), os.MkdirAll(filepath.Dir(guest), 0o700)); err != nil {
		t.Fatal(err)
	}
	if env, err := l.TorchEnv("", none); err == nil {
		t.Errorf("without an NCCL: %q", env)
	}
	if err := os.WriteFile(guest, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for users, path := range map[string]string{"": l.Torch, "/a:/b": l.Torch + ":/a:/b", "/a:" + l.Torch: "/a:" +
		l.Torch} {
		env, err := l.TorchEnv("2.22", func(name string) string { return map[string]string{"PYTHONPATH": users}[name] })
		if want := []string{"PYTHONPATH=" + path, "DDLEMU_TORCH_NCCL=" + guest}; !slices.Equal(env, want) ||
			err != nil {
			t.Errorf("%q, %v, want %q", env, err, want)
		}
	}
	users := func(name string) string { return map[string]string{"DDLEMU_TORCH_NCCL": "/mine.so"}[name] }
	for version, want := range map[string][]string{"": {"PYTHONPATH=" + l.Torch},
		"2.22": {"PYTHONPATH=" + l.Torch, "DDLEMU_TORCH_NCCL=" + guest}} {
		if env, err := l.TorchEnv(version, users); !slices.Equal(env, want) || err != nil {
			t.Errorf("version %q: %q, %v, want %q", version, env, err, want)
		}
	}
}

func TestCUDATorchEnv(t *testing.T) {
	users := func(name string) string { return map[string]string{"LD_PRELOAD": "/mine.so", "PYTHONPATH": "/a"}[name] }
	l := Layout{SoftCUDA: "/soft", Torch: t.TempDir()}
	libs := Libraries{NCCL: []string{"/soft/lib/nccl-2.29/libnccl.so.2"}}
	if env, err := l.CUDATorchEnv(libs, users); err == nil {
		t.Errorf("without the operators: %q", env)
	}
	folder := filepath.Join(l.Torch, "cuda")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	want := []string{"PYTHONPATH=" + folder + ":/a", "LD_PRELOAD=/soft/lib/nccl-2.29/libnccl.so.2:" +
		"/soft/lib/libcudart.so.12:/soft/lib/libcuda.so.1:/soft/lib/libnvidia-ml.so.1:/mine.so"}
	if env, err := l.CUDATorchEnv(libs, users); err != nil || !slices.Equal(env, want) {
		t.Errorf("%q, %v, want %q", env, err, want)
	}
}
