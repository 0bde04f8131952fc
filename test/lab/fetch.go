// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"

	"github.com/ddlemu/ddlemu/cuda/soft/setup/debian"
)

// kernel is an unpacked kernel.
type kernel struct {
	version string // 6.1.0-56-cloud-amd64
	image   string
	modules string // folder
}

// metapackage depends on the newest kernel of a suite.
const metapackage = "linux-image-cloud-amd64"

// kernelPackage matches the packages of a kernel.
var kernelPackage = regexp.MustCompile(`^linux-(image|binary|modules)-\d`)

// fetch returns the kernel of a suite in dir. It downloads it if necessary. If that is not possible, the error wraps
// errSkip.
func fetch(ctx context.Context, dir, suite string) (kernel, error) {
	root := filepath.Join(dir, "root")
	if k, err := find(root); err == nil {
		return k, nil
	}
	mirror, err := debian.Mirror()
	if err != nil {
		return kernel{}, fmt.Errorf("%w: %w", errSkip, err)
	}
	a := debian.Archive{Package: metapackage, Suite: suite, Component: "main", Mirror: mirror,
		Dir: filepath.Join(dir, "apt")}
	part := root + ".part"
	if err := errors.Join(os.RemoveAll(part), os.MkdirAll(part, 0o755)); err != nil {
		return kernel{}, err
	}
	if err := download(ctx, a, part); err != nil {
		return kernel{}, fmt.Errorf("%w: %w", errSkip, err)
	}
	if err := errors.Join(os.RemoveAll(root), os.Rename(part, root)); err != nil {
		return kernel{}, err
	}
	return find(root)
}

// download downloads a package and the packages that it depends on, and unpacks the ones of a kernel into root.
func download(ctx context.Context, a debian.Archive, root string) error {
	versions, err := a.Versions(ctx)
	if err != nil {
		return err
	}
	if len(versions) == 0 {
		return fmt.Errorf("%s has no %s", a.Suite, a.Package)
	}
	names, err := a.Depends(ctx)
	if err != nil {
		return err
	}
	if kernelPackage.MatchString(a.Package) {
		dir, err := os.MkdirTemp(a.Dir, "deb-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		file, err := a.Download(ctx, versions[0], dir, func(float64) {})
		if err != nil {
			return err
		}
		if out, err := exec.CommandContext(ctx, "dpkg-deb", "-x", file, root).CombinedOutput(); err != nil {
			return fmt.Errorf("unpack %s: %w: %s", file, err, out)
		}
	}
	for _, name := range names {
		if !kernelPackage.MatchString(name) {
			continue
		}
		next := a
		next.Package = name
		if err := download(ctx, next, root); err != nil {
			return err
		}
	}
	return nil
}

// find returns the kernel in root.
func find(root string) (kernel, error) {
	for _, at := range []string{"usr/lib/modules", "lib/modules"} {
		dirs, err := filepath.Glob(filepath.Join(root, at, "*"))
		if err != nil || len(dirs) == 0 {
			continue
		}
		k := kernel{version: filepath.Base(dirs[0]), modules: dirs[0]}
		for _, image := range []string{filepath.Join(dirs[0], "vmlinuz"),
			filepath.Join(root, "boot", "vmlinuz-"+k.version)} {
			if _, err := os.Stat(image); err == nil {
				k.image = image
				return k, nil
			}
		}
	}
	return kernel{}, fmt.Errorf("no kernel in %s: %w", root, os.ErrNotExist)
}
