// SPDX-License-Identifier: Apache-2.0

// Package locate finds the files that a run needs on this machine: the files of ddlemu, and NCCL and CUDA, real or
// software.
package locate

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Layout is where ddlemu's files are, after `make build` or when they are installed.
type Layout struct {
	Rank     string // the program ddlemu-rank
	Plugin   string // folder of libgoemu.so
	SoftCUDA string // folder of the software CUDA, which may not exist
	Torch    string // folder of the Python package ddlemu_torch, which may not exist
}

// Find returns the files relative to the running program: ../lib for the plugin, ../softcuda for the software CUDA
// after `make build`, and ../lib/ddlemu/softcuda after `make install`. The environment variable DDLEMU_PLUGIN_DIR
// overrides the plugin's folder.
func Find() (Layout, error) {
	exe, err := os.Executable()
	if err != nil {
		return Layout{}, fmt.Errorf("find this program's folder: %w", err)
	}
	if real, err := filepath.EvalSymlinks(exe); err == nil {
		exe = real
	}
	base := filepath.Dir(filepath.Dir(exe))
	parts := filepath.Join(base, "lib", "ddlemu")
	if isFolder(filepath.Join(base, "softcuda")) {
		parts = base
	}
	l := Layout{
		Rank: filepath.Join(base, "bin", "ddlemu-rank"), Plugin: filepath.Join(base, "lib"),
		SoftCUDA: filepath.Join(parts, "softcuda"), Torch: filepath.Join(parts, "torch"),
	}
	if dir := os.Getenv("DDLEMU_PLUGIN_DIR"); dir != "" {
		l.Plugin = dir
	}
	return l, nil
}

func isFolder(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// CheckPlugin returns an error if the plugin does not exist.
func (l Layout) CheckPlugin() error {
	if _, err := os.Stat(filepath.Join(l.Plugin, "libgoemu.so")); err != nil {
		return fmt.Errorf("libgoemu.so is not in %s: run `make build`, or set DDLEMU_PLUGIN_DIR to its folder",
			l.Plugin)
	}
	return nil
}

// Soft is the value of Libraries.CUDA for the software CUDA.
const Soft = "soft"

// Libraries are the libraries that ranks load.
type Libraries struct {
	CUDA   string   // Soft or "gpu"
	NCCL   []string // paths or sonames; ranks use the first that loads
	Cudart []string // the same for the CUDA runtime
	Path   []string // folders for LD_LIBRARY_PATH

	Version string // release line of NCCL on the software CUDA, one of SoftVersions; "" on GPUs
}

// SoftVersions are the release lines of NCCL that the software CUDA can have, the newest last.
var SoftVersions = []string{"2.22", "2.29"}

// DefaultSoftVersion is the release line that is used by default.
const DefaultSoftVersion = "2.22"

// HasGPU says whether this machine has a GPU with NVIDIA's driver. A container can have the device files without the
// driver's folder in /proc.
func HasGPU() bool {
	for _, pattern := range []string{"/proc/driver/nvidia/gpus/*", "/dev/nvidia[0-9]*"} {
		if found, err := filepath.Glob(pattern); err == nil && len(found) > 0 {
			return true
		}
	}
	return false
}

// Soft returns the libraries of the software CUDA with a release line of NCCL ("" for the default).
func (l Layout) Soft(version string) (Libraries, error) {
	version = cmp.Or(version, DefaultSoftVersion)
	lib := filepath.Join(l.SoftCUDA, "lib")
	nccl := l.relinked(version)
	if _, err := os.Stat(filepath.Join(lib, "libcudart.so")); err != nil {
		return Libraries{}, fmt.Errorf(
			"there is no GPU to use, and the software CUDA is not in %s: install the package ddlemu-softcuda, or run "+
				"`make build` in the source (docs/install.md)", l.SoftCUDA)
	}
	if _, err := os.Stat(nccl); err != nil {
		return Libraries{}, fmt.Errorf("NCCL %s for the software CUDA is not in %s: it has %s; run `make build`",
			version, lib, list(built(l.relinked)))
	}
	return Libraries{
		CUDA: Soft, NCCL: []string{nccl}, Cudart: []string{filepath.Join(lib, "libcudart.so")},
		Path: []string{filepath.Dir(nccl), lib}, Version: version,
	}, nil
}

// Guest returns the path of a library with a release line of NCCL ("" for the default) and the whole software CUDA, for
// processes that have a CUDA and an NCCL of their own: they open it by this path, with RTLD_LOCAL.
func (l Layout) Guest(version string) (string, error) {
	version = cmp.Or(version, DefaultSoftVersion)
	path := l.guest(version)
	if _, err := os.Stat(filepath.Dir(path)); err != nil {
		return "", fmt.Errorf("the NCCL for guests is not in %s: run `make build`", l.SoftCUDA)
	}
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("NCCL %s for guests is not in %s: it has %s; run `make build`", version,
			filepath.Dir(path), list(built(l.guest)))
	}
	return path, nil
}

// PythonPathEnv lists folders in which Python looks for packages.
const PythonPathEnv = "PYTHONPATH"

// TorchEnv makes PyTorch find the backend "ddlemu" (cuda/torch), and the backend an NCCL for guests with a release
// line. Without one ("") the user's choice is kept if there is one, else it is the default. It is empty if the backend
// is not built.
func (l Layout) TorchEnv(version string, getenv func(string) string) ([]string, error) {
	if _, err := os.Stat(l.Torch); err != nil {
		return nil, nil
	}
	env := []string{pythonPath(l.Torch, getenv)}
	if version == "" && getenv("DDLEMU_TORCH_NCCL") != "" {
		return env, nil
	}
	guest, err := l.Guest(version)
	if err != nil {
		return nil, err
	}
	return append(env, "DDLEMU_TORCH_NCCL="+guest), nil
}

// pythonPath returns the variable by which Python looks for packages in a folder before it looks where it did.
func pythonPath(folder string, getenv func(string) string) string {
	old := getenv(PythonPathEnv)
	if slices.Contains(filepath.SplitList(old), folder) { // this program was started with it
		return PythonPathEnv + "=" + old
	}
	return PythonPathEnv + "=" + joined(folder, old)
}

// joined puts entries before the present value of a variable with a list.
func joined(entries, old string) string {
	if old == "" {
		return entries
	}
	return entries + ":" + old
}

// CUDATorchVersion is the release line of NCCL for a PyTorch for CUDA, unless the user chooses one: PyTorch 2.7 and
// later use functions that 2.22 does not have.
const CUDATorchVersion = "2.29"

// CUDATorchEnv makes an unmodified PyTorch for CUDA use the software CUDA and the NCCL of libs, and run its operators
// on the CPU. PyTorch's libraries name the folders of NVIDIA's, before LD_LIBRARY_PATH, so that libraries of the same
// names have to be loaded before.
func (l Layout) CUDATorchEnv(libs Libraries, getenv func(string) string) ([]string, error) {
	folder := filepath.Join(l.Torch, "cuda")
	if _, err := os.Stat(folder); err != nil {
		return nil, fmt.Errorf("the operators for PyTorch are not in %s: run `make build`", folder)
	}
	preload := slices.Clone(libs.NCCL)
	for _, name := range []string{"libcudart.so.12", "libcuda.so.1", "libnvidia-ml.so.1"} {
		preload = append(preload, filepath.Join(l.SoftCUDA, "lib", name))
	}
	return []string{
		pythonPath(folder, getenv), "LD_PRELOAD=" + joined(strings.Join(preload, ":"), getenv("LD_PRELOAD")),
	}, nil
}

// guest returns the path of the NCCL for guests of a release line.
func (l Layout) guest(version string) string {
	return filepath.Join(l.SoftCUDA, "lib", "guest", "libddlemu-nccl-"+version+".so")
}

// relinked returns the path of the relinked NCCL of a release line.
func (l Layout) relinked(version string) string {
	return filepath.Join(l.SoftCUDA, "lib", "nccl-"+version, "libnccl.so.2")
}

// SoftVersions returns the release lines of NCCL for the software CUDA that are there, of [SoftVersions].
func (l Layout) SoftVersions() []string { return built(l.relinked) }

// built returns the release lines whose file exists.
func built(path func(version string) string) []string {
	var found []string
	for _, v := range SoftVersions {
		if _, err := os.Stat(path(v)); err == nil {
			found = append(found, v)
		}
	}
	return found
}

// list writes release lines for a message.
func list(versions []string) string {
	if len(versions) == 0 {
		return "none"
	}
	return strings.Join(versions, ", ")
}

// GPU returns this machine's CUDA and NCCL. If nccl is not empty, it is NCCL's path.
func GPU(nccl string) Libraries {
	l := Libraries{CUDA: "gpu", NCCL: []string{"libnccl.so.2", "libnccl.so"},
		Cudart: []string{"libcudart.so.13", "libcudart.so.12", "libcudart.so.11.0", "libcudart.so"}}
	if nccl != "" {
		l.NCCL = []string{nccl}
	}
	return l
}

// Env returns LD_LIBRARY_PATH=VALUE for processes that load the libraries and the plugin.
func (l Libraries) Env(layout Layout) string {
	path := append(append([]string{}, l.Path...), layout.Plugin)
	if old := os.Getenv("LD_LIBRARY_PATH"); old != "" {
		path = append(path, old)
	}
	return "LD_LIBRARY_PATH=" + strings.Join(path, ":")
}

// Select finds the plugin, CUDA and NCCL for ranks: the machine's if it has a GPU, unless soft is set, else the
// software CUDA. nccl is a version of NCCL for the software CUDA, or with a GPU the path of a library; "" for the
// default.
func Select(nccl string, soft bool) (Layout, Libraries, error) {
	layout, err := Find()
	if err == nil {
		err = layout.CheckPlugin()
	}
	if err != nil {
		return layout, Libraries{}, err
	}
	known := slices.Contains(SoftVersions, nccl)
	switch gpu := HasGPU() && !soft; {
	case gpu && known:
		return layout, Libraries{}, fmt.Errorf(
			"--nccl %s chooses a version for the software CUDA: add --soft-cuda, or give the path of a libnccl.so.2",
			nccl)
	case gpu:
		return layout, GPU(nccl), nil
	case nccl != "" && !known:
		return layout, Libraries{}, fmt.Errorf("--nccl %s: without a GPU there are %s", nccl,
			strings.Join(SoftVersions, " and "))
	}
	libs, err := layout.Soft(nccl)
	return layout, libs, err
}

// NetEnv makes NCCL load the plugin and use it between nodes. With loopback, which all ranks must share, its bootstrap
// goes over that interface, unless the user set another one.
func NetEnv(getenv func(string) string, loopback bool) []string {
	env := []string{"NCCL_NET_PLUGIN=goemu", "NCCL_NET=goemu"}
	if loopback && getenv("NCCL_SOCKET_IFNAME") == "" {
		env = append(env, "NCCL_SOCKET_IFNAME=lo")
	}
	return env
}

// InjectionEnv names the library that NVTX loads in each process that uses it.
const InjectionEnv = "NVTX_INJECTION64_PATH"

// Injection is the variable that makes NVTX load the plugin, which records the program's ranges. If the user has named
// another library, there is none, and users is that library.
func (l Layout) Injection(getenv func(string) string) (env []string, users string) {
	path := filepath.Join(l.Plugin, "libgoemu.so")
	users = getenv(InjectionEnv)
	if users == "" {
		return []string{InjectionEnv + "=" + path}, ""
	}
	own, err := os.Stat(path)
	if err != nil {
		return nil, users
	}
	if its, err := os.Stat(users); err == nil && os.SameFile(own, its) {
		return nil, ""
	}
	return nil, users
}
