// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"compress/gzip"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// testModules are the modules that the tests use. Those that are built into a kernel have no file.
var testModules = []string{
	"veth", "bridge", "sch_netem", "sch_fq", "sch_htb", "sch_tbf", "sch_ingress", "cls_bpf", "cls_u32", "act_mirred",
	"tcp_bbr",
}

// pack writes the initial file system of a machine: init, the modules, numbered in the order of loading, and the tests.
func pack(image string, k kernel, dir string) error {
	f, err := os.Create(image)
	if err != nil {
		return err
	}
	z := gzip.NewWriter(f)
	err = writeArchive(z, k, dir)
	return errors.Join(err, z.Close(), f.Close())
}

func writeArchive(w io.Writer, k kernel, dir string) error {
	a := archive{w: w}
	for _, name := range []string{"dev", "modules", "tests"} {
		a.add(name, fs.ModeDir|0o755, nil)
	}
	modules, err := readModules(k.modules, testModules)
	if err != nil {
		return err
	}
	for i, m := range modules {
		a.add(fmt.Sprintf("modules/%02d-%s", i, m.name), 0o644, m.object)
	}
	tests, err := filepath.Glob(filepath.Join(dir, "tests", "*"))
	if err != nil {
		return err
	}
	for _, path := range append(tests, filepath.Join(dir, "init")) {
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		a.add(name, 0o755, b)
	}
	a.add("TRAILER!!!", 0, nil)
	return a.err
}

// archive writes the format newc of cpio (Documentation/driver-api/early-userspace/buffer-format.rst of Linux). After
// an error, add does nothing.
type archive struct {
	w   io.Writer
	ino int
	err error
}

func (a *archive) add(name string, mode fs.FileMode, data []byte) {
	kind := 0o100000
	if mode.IsDir() {
		kind = 0o040000
	}
	a.ino++
	head := "070701"
	for _, v := range []int{a.ino, kind | int(mode.Perm()), 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name) + 1, 0} {
		head += fmt.Sprintf("%08x", v)
	}
	head += name + "\x00"
	head += strings.Repeat("\x00", -len(head)&3)
	for _, b := range [][]byte{[]byte(head), data, make([]byte, -len(data)&3)} {
		if a.err == nil {
			_, a.err = a.w.Write(b)
		}
	}
}

// module is a module of a kernel.
type module struct {
	name   string
	object []byte
}

// readModules returns the modules with these names and their dependencies, in an order in which they can be loaded.
func readModules(dir string, names []string) ([]module, error) {
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if base, _, ok := strings.Cut(filepath.Base(path), ".ko"); ok && err == nil && !d.IsDir() {
			files[strings.ReplaceAll(base, "-", "_")] = path
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("find modules: %w", err)
	}
	var out []module
	var add func(name string) error
	add = func(name string) error {
		path, ok := files[name]
		if !ok || slices.ContainsFunc(out, func(m module) bool { return m.name == name }) {
			return nil
		}
		object, err := readModule(path)
		if err != nil {
			return err
		}
		dependencies, err := dependenciesOf(object)
		if err != nil {
			return fmt.Errorf("read %s: %w", path, err)
		}
		for _, d := range dependencies {
			if err := add(d); err != nil {
				return err
			}
		}
		out = append(out, module{name, object})
		return nil
	}
	for _, name := range names {
		if err := add(name); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// readModule reads a file that may be compressed with xz.
func readModule(path string) ([]byte, error) {
	if !strings.HasSuffix(path, ".xz") {
		return os.ReadFile(path)
	}
	out, err := exec.Command("xz", "-dc", path).Output()
	if err != nil {
		return nil, fmt.Errorf("unpack %s: %w", path, err)
	}
	return out, nil
}

// dependenciesOf returns the names of the modules that must be loaded before a module.
func dependenciesOf(object []byte) ([]string, error) {
	f, err := elf.NewFile(bytes.NewReader(object))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	s := f.Section(".modinfo")
	if s == nil {
		return nil, errors.New("no section .modinfo")
	}
	info, err := s.Data()
	if err != nil {
		return nil, err
	}
	for _, line := range strings.Split(string(info), "\x00") {
		if list, ok := strings.CutPrefix(line, "depends="); ok && list != "" {
			return strings.Split(strings.ReplaceAll(list, "-", "_"), ","), nil
		}
	}
	return nil, nil
}
