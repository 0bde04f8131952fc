// SPDX-License-Identifier: Apache-2.0

package softbuild

import (
	"archive/tar"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/ddlemu/ddlemu/cuda/soft/setup/debian"
)

// Package is an NCCL in build/softcuda, as softcuda.json lists it.
type Package struct {
	// NCCL is the version as a program knows it: "2.22.3".
	NCCL string `json:"nccl"`
	// Package is Debian's version of it: "2.22.3-1-1".
	Package string `json:"package"`
	// Source is the suite it came from, or "file" for one that was put into the cache by hand.
	Source string `json:"source"`
	// Dir is the folder with libnccl.so.2, relative to build/softcuda: "lib/nccl-2.22".
	Dir string `json:"dir"`
}

// unpack takes what relinking needs out of a .deb: nccl.h, the archive's host objects, the copyright. The result
// appears as a whole or not at all.
func (b *builder) unpack(deb string, v debian.Version, source string) error {
	b.con.say("unpacking NCCL %s", v)
	temporary, err := os.MkdirTemp(b.cache(), "unpack-")
	if err != nil {
		return fmt.Errorf("make folder: %w", err)
	}
	defer os.RemoveAll(temporary)
	if err := os.Mkdir(filepath.Join(temporary, "objects"), 0o755); err != nil {
		return fmt.Errorf("make folder: %w", err)
	}
	cmd := exec.CommandContext(b.ctx, "dpkg-deb", "--fsys-tarfile", deb)
	cmd.Stderr = os.Stderr
	stream, err := cmd.StdoutPipe()
	if err != nil {
		return fmt.Errorf("unpack %s: %w", deb, err)
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("unpack %s: %w", deb, err)
	}
	err = takeFiles(tar.NewReader(stream), temporary)
	_, _ = io.Copy(io.Discard, stream)
	if err = errors.Join(err, cmd.Wait()); err != nil {
		return fmt.Errorf("unpack %s: %w", deb, err)
	}
	about, err := json.Marshal(Package{Package: string(v), Source: source})
	if err != nil {
		return fmt.Errorf("describe package: %w", err)
	}
	if err := os.WriteFile(filepath.Join(temporary, "package.json"), about, 0o644); err != nil {
		return fmt.Errorf("describe package: %w", err)
	}
	return moveDir(temporary, b.unpacked(v))
}

func takeFiles(files *tar.Reader, dir string) error {
	header, objects := false, 0
	for {
		h, err := files.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		switch {
		case strings.HasSuffix(h.Name, "/usr/include/nccl.h"):
			header = true
			err = save(files, filepath.Join(dir, "nccl.h"))
		case strings.HasSuffix(h.Name, "/doc/libnccl-dev/copyright"):
			err = save(files, filepath.Join(dir, "copyright"))
		case strings.HasSuffix(h.Name, "/libnccl_static.a"):
			objects, err = extractObjects(files, filepath.Join(dir, "objects"))
		}
		if err != nil {
			return err
		}
	}
	if !header || objects == 0 {
		return errors.New("the package holds no nccl.h or no libnccl_static.a")
	}
	return nil
}

func save(in io.Reader, path string) error {
	data, err := io.ReadAll(in)
	if err != nil {
		return err
	}
	return os.WriteFile(path, data, 0o644)
}

func moveDir(from, to string) error {
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return fmt.Errorf("make folder: %w", err)
	}
	if err := os.RemoveAll(to); err != nil {
		return fmt.Errorf("replace folder: %w", err)
	}
	if err := os.Chmod(from, 0o755); err != nil {
		return fmt.Errorf("open folder to others: %w", err)
	}
	if err := os.Rename(from, to); err != nil {
		return fmt.Errorf("move into place: %w", err)
	}
	return nil
}

// relink links NCCL's host objects against the software runtime.
func (b *builder) relink(v debian.Version, source string) (Package, []string, error) {
	number, err := v.NCCL()
	if err != nil {
		return Package{}, nil, err
	}
	p := Package{
		NCCL:    fmt.Sprintf("%d.%d.%d", number/10000, number/100%100, number%100),
		Package: string(v), Source: source, Dir: "lib/nccl-" + v.Line(),
	}
	ours, err := b.glue(v, number)
	if err != nil {
		return p, nil, err
	}
	objects, err := filepath.Glob(filepath.Join(b.unpacked(v), "objects", "*"))
	if err != nil || len(objects) == 0 {
		return p, ours, errors.Join(fmt.Errorf("find the objects of NCCL %s in the cache", v), err)
	}
	product := filepath.Join(b.soft(), p.Dir, ncclLibrary)
	// Debian's newest objects are miscompiled by binutils 2.40 when it relaxes GOT loads.
	flags := append(soname(ncclLibrary), "-Wl,--no-relax", "-Wl,-rpath,$ORIGIN:$ORIGIN/..", "-Wl,--enable-new-dtags")
	// The package's version stands for its objects, which never change.
	print, err := fingerprint(ours, b.cc.ident, string(v), strconv.Itoa(len(objects)), strings.Join(flags, " "), stubAssembly(nil))
	if err != nil {
		return p, ours, err
	}
	return p, ours, produce(product, print, func(temporary string) error {
		b.con.say("relinking NCCL %s against the software CUDA", p.NCCL)
		stubs, err := b.stubs(objects, temporary)
		if err != nil {
			return err
		}
		defer os.Remove(stubs)
		args := slices.Concat([]string{"-o", temporary}, objects, ours, []string{stubs, b.lib(runtimeLibrary)}, flags)
		return b.cc.run("g++", append(args, "-lpthread", "-ldl", "-lrt")...)
	})
}

// glue compiles what a relinked NCCL holds of ours.
func (b *builder) glue(v debian.Version, number int) ([]string, error) {
	all, err := sources([]string{".cc"}, b.src("glue"))
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(file string) bool { return filepath.Base(file) == "knows.cc" })
	folders := []string{b.src("include"), b.unpacked(v)}
	return b.cc.compile("NCCL's glue", units(all, folders, []string{"-DDDLEMU_NCCL_VERSION=" + strconv.Itoa(number)}))
}

// stubs assembles the kernels' stubs beside a product and returns the object.
func (b *builder) stubs(objects []string, product string) (string, error) {
	kernels, err := missingKernels(objects)
	if err != nil {
		return "", err
	}
	if len(kernels) == 0 {
		return "", errors.New("relink NCCL: its objects name no kernels")
	}
	source, object := product+".s", product+".stubs.o"
	defer os.Remove(source)
	if err := os.WriteFile(source, []byte(stubAssembly(kernels)), 0o644); err != nil {
		return "", fmt.Errorf("write stubs: %w", err)
	}
	return object, b.cc.run("as", "-o", object, source)
}
