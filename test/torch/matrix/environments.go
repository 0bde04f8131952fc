// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// environment is a version of PyTorch.
type environment struct {
	name string
	// make makes it and returns the path of its Python. It is called once.
	make   func(ctx context.Context, l *lane) (python string, err error)
	python string
	torch  string // version
	err    error  // of prepare
	done   bool
}

// debianPackages are the packages of the roots.
var debianPackages = []string{"python3-torch", "python3-pytest", "python3-setuptools", "python3-numpy", "python3-scipy"}

// pypiPackages are the packages of the environment with PyPI's newest versions.
var pypiPackages = []string{"torch", "pytest", "setuptools", "numpy", "expecttest", "accelerate"}

func (*lane) environments() []*environment {
	return []*environment{
		{name: "trixie", make: debianRoot("trixie")},
		// sid's index of a mirror that is a snapshot is too old for apt.
		{name: "sid", make: debianRoot("sid", `--aptopt=Acquire::Check-Valid-Until "false"`)},
		{name: "pypi", make: virtualEnvironment},
	}
}

// prepare makes the environment, once, and asks for the version of PyTorch.
func (e *environment) prepare(ctx context.Context, l *lane) error {
	if e.done {
		return e.err
	}
	e.done = true
	if e.python, e.err = e.make(ctx, l); e.err != nil {
		return e.err
	}
	var out []byte
	if out, e.err = output(ctx, e.python, "-c", "import torch; print(torch.__version__)"); e.err == nil {
		e.torch = strings.TrimSpace(string(out))
	}
	return e.err
}

// debianRoot returns a function that makes a root folder of a suite of Debian, with the machine's own mirror.
func debianRoot(suite string, options ...string) func(context.Context, *lane) (string, error) {
	return func(ctx context.Context, l *lane) (string, error) {
		root := filepath.Join(l.cache, suite)
		if _, err := os.Stat(root + ".ready"); err != nil {
			mirror, err := debianMirror(ctx)
			if err != nil {
				return "", err
			}
			if err := os.RemoveAll(root); err != nil {
				return "", err
			}
			args := append([]string{"--variant=minbase", "--include=" + strings.Join(debianPackages, ",")}, options...)
			if _, err := output(ctx, "mmdebstrap", append(args, suite, root, mirror)...); err != nil {
				return "", err
			}
			if err := os.WriteFile(root+".ready", nil, 0o644); err != nil {
				return "", err
			}
		}
		if err := mount(ctx, root, "/proc", "/dev", os.TempDir(), l.repo, l.build, l.cache); err != nil {
			return "", err
		}
		machine, err := nameHost(root)
		if err != nil {
			return "", err
		}
		return wrappers(l.cache, suite, root, machine)
	}
}

// nameHost lets a root find this machine by its name, which it returns: torchrun of torch 2.14 meets its ranks there.
func nameHost(root string) (string, error) {
	name, err := os.Hostname()
	if err != nil {
		return "", err
	}
	return name, os.WriteFile(filepath.Join(root, "etc", "hosts"), fmt.Appendf(nil, "127.0.0.1 localhost %s\n", name),
		0o644)
}

// mount shows folders of the machine in a root, under the same names.
func mount(ctx context.Context, root string, folders ...string) error {
	for _, folder := range folders {
		target := filepath.Join(root, folder)
		if err := os.MkdirAll(target, 0o755); err != nil {
			return err
		}
		if _, err := output(ctx, "mount", "--rbind", folder, target); err != nil {
			return fmt.Errorf("%w (start it with `make torch-matrix`, as root)", err)
		}
	}
	return nil
}

// wrapper runs a program of a root. On an emulated node, which has a name of its own, the root has the node's
// /etc/hosts.
const wrapper = `#!/bin/sh
if [ "$(uname -n)" = '%[2]s' ]; then
	exec chroot '%[1]s' env -C "$PWD" /usr/bin/%[3]s "$@"
fi
exec unshare --mount sh -c 'mount --bind /etc/hosts "$0/etc/hosts" && exec chroot "$0" env -C "$PWD" "$@"' '%[1]s' /usr/bin/%[3]s "$@"
`

// wrappers writes programs that run the programs of a root in the current folder, and returns the path of Python.
// machine is the name of this machine.
func wrappers(cache, suite, root, machine string) (string, error) {
	folder := filepath.Join(cache, suite+".bin")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return "", err
	}
	for _, name := range []string{"torchrun", "python3"} {
		script := fmt.Sprintf(wrapper, root, machine, name)
		if err := os.WriteFile(filepath.Join(folder, name), []byte(script), 0o755); err != nil {
			return "", err
		}
	}
	return filepath.Join(folder, "python3"), nil
}

// debianMirror returns the address of the mirror that apt uses on this machine.
func debianMirror(ctx context.Context) (string, error) {
	if _, err := output(ctx, "apt-get", "update", "-q"); err != nil {
		return "", err
	}
	out, err := output(ctx, "apt-get", "indextargets", "--format", "$(REPO_URI)",
		"Created-By: Packages", "Origin: Debian", "Label: Debian", "Component: main")
	if err != nil {
		return "", err
	}
	fields := strings.Fields(string(out))
	if len(fields) == 0 {
		return "", fmt.Errorf("apt has no source of Debian: see /etc/apt/sources.list.d")
	}
	return fields[0], nil
}

// virtualEnvironment makes an environment with the newest versions of PyPI, or updates it.
func virtualEnvironment(ctx context.Context, l *lane) (string, error) {
	dir := filepath.Join(l.cache, "pypi")
	python := filepath.Join(dir, "bin", "python")
	if _, err := os.Stat(python); err != nil {
		if _, err := output(ctx, "python3", "-m", "venv", dir); err != nil {
			return "", err
		}
	}
	_, err := output(ctx, python, append([]string{"-m", "pip", "install", "-q", "--upgrade"}, pypiPackages...)...)
	return python, err
}

// output runs a program and returns what it prints on stdout. An error has what it printed on stderr.
func output(ctx context.Context, name string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, tail(stderr.String()))
	}
	return out, nil
}
