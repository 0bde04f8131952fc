// SPDX-License-Identifier: Apache-2.0

package host

import (
	"bytes"
	"io"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
)

// libraryDirs are the default folders of the dynamic linker, without LD_LIBRARY_PATH and its configuration.
var libraryDirs = []string{
	"/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib/aarch64-linux-gnu", "/usr/lib/aarch64-linux-gnu",
	"/lib64", "/usr/lib64", "/lib", "/usr/lib", "/usr/local/lib", "/usr/local/cuda/lib64",
}

// pythonLibs are the folders of Python packages below an interpreter's or environment's prefix. The package nvidia-nccl
// has the library there.
var pythonLibs = []string{"lib/python3*/site-packages", "lib/python3*/dist-packages", "lib/python3/dist-packages"}

// nccl checks for NCCL libraries other than the libraries of the software CUDA.
func (m Machine) nccl() Check {
	var found []string
	for _, lib := range m.ncclLibraries() {
		v := m.ncclVersion(lib)
		if v == "" {
			v = "of unknown version"
		}
		found = append(found, v+" ("+lib+")")
	}
	if len(found) > 0 {
		return Check{Name: "NCCL", Grade: OK, Found: strings.Join(found, ", "),
			Means: "jobs on real GPUs have it; --nccl takes its path"}
	}
	return Check{
		Name: "NCCL", Grade: Missing, Found: "none but the software CUDA's",
		Means: "jobs on real GPUs must bring theirs, as PyTorch does",
		Next:  "pip install nvidia-nccl-cu12, or apt install libnccl2",
	}
}

// ncclLibraries returns the paths of the NCCL libraries that a job may load.
func (m Machine) ncclLibraries() []string {
	var found []string
	for _, dir := range append(m.linkerPath(), libraryDirs...) {
		if lib := path.Join(dir, "libnccl.so.2"); m.exists(lib) && !m.isSoft(lib) {
			found = append(found, lib)
		}
	}
	prefixes := []string{"/usr", "/usr/local", "/opt/conda"}
	for _, name := range []string{"VIRTUAL_ENV", "CONDA_PREFIX"} {
		prefixes = append(prefixes, m.Getenv(name))
	}
	if home := m.Getenv("HOME"); home != "" {
		prefixes = append(prefixes, path.Join(home, ".local"))
	}
	for _, prefix := range prefixes {
		if !path.IsAbs(prefix) {
			continue
		}
		for _, site := range pythonLibs {
			found = append(found, m.glob(path.Join(prefix, site, "nvidia/nccl/lib/libnccl.so.2"))...)
		}
	}
	return m.distinct(found)
}

// linkerPath returns LD_LIBRARY_PATH and the folders of the linker's configuration.
func (m Machine) linkerPath() []string {
	dirs := strings.Split(m.Getenv("LD_LIBRARY_PATH"), ":")
	for _, file := range append([]string{"/etc/ld.so.conf"}, m.glob("/etc/ld.so.conf.d/*.conf")...) {
		dirs = append(dirs, strings.Split(m.read(file), "\n")...)
	}
	return slices.DeleteFunc(dirs, func(d string) bool { return !path.IsAbs(strings.TrimSpace(d)) })
}

func (m Machine) hasLibrary(name string) bool {
	return slices.ContainsFunc(append(m.linkerPath(), libraryDirs...),
		func(dir string) bool { return m.exists(path.Join(dir, name)) })
}

func (m Machine) isSoft(lib string) bool {
	return m.SoftCUDA != "" && strings.HasPrefix(lib, m.SoftCUDA+"/")
}

// distinct removes paths to a file that an earlier path leads to.
func (m Machine) distinct(paths []string) []string {
	var kept []string
	var infos []fs.FileInfo
	for _, p := range paths {
		info, err := fs.Stat(m.Root, strings.TrimPrefix(p, "/"))
		if err != nil || slices.ContainsFunc(infos, func(i fs.FileInfo) bool { return os.SameFile(i, info) }) ||
			slices.Contains(kept, p) {
			continue
		}
		kept, infos = append(kept, p), append(infos, info)
	}
	return kept
}

// glob returns the absolute paths that match a pattern.
func (m Machine) glob(pattern string) []string {
	found, err := fs.Glob(m.Root, strings.TrimPrefix(pattern, "/"))
	if err != nil {
		return nil
	}
	for i := range found {
		found[i] = "/" + found[i]
	}
	return found
}

// NCCL contains its version as the text that it logs.
var ncclVersionText = regexp.MustCompile(`NCCL version (\d+\.\d+\.\d+)`)

// ncclVersion is the version in a library file, "" if it has none. The library is not loaded, because that would run
// its constructors and need CUDA.
func (m Machine) ncclVersion(lib string) string {
	f, err := m.Root.Open(strings.TrimPrefix(lib, "/"))
	if err != nil {
		return ""
	}
	defer f.Close()
	const longest = 32 // bytes of the text; kept from one read to the next
	var tail []byte
	chunk := make([]byte, 1<<20)
	for {
		n, err := io.ReadFull(f, chunk)
		text := append(tail, chunk[:n]...)
		if bytes.Contains(text, []byte("NCCL version ")) {
			if v := ncclVersionText.FindSubmatch(text); v != nil {
				return string(v[1])
			}
		}
		if err != nil {
			return ""
		}
		tail = bytes.Clone(text[max(len(text)-longest, 0):])
	}
}
