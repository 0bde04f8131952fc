// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// pytorchSource downloads the source package of PyTorch of a suite of Debian, once, and returns the folder of its tests
// of torch.distributed.
func (l *lane) pytorchSource(ctx context.Context, suite string) (string, error) {
	dir := filepath.Join(l.cache, "source-"+suite)
	tests := filepath.Join(dir, "test", "distributed")
	if _, err := os.Stat(tests); err == nil {
		return tests, nil
	}
	mirror, err := debianMirror(ctx)
	if err != nil {
		return "", err
	}
	// apt's lists of the machine stay as they are.
	for _, folder := range []string{"lists/partial", "cache/archives/partial"} {
		if err := os.MkdirAll(filepath.Join(dir, folder), 0o755); err != nil {
			return "", err
		}
	}
	list := filepath.Join(dir, "sources.list")
	if err := os.WriteFile(list, fmt.Appendf(nil, "deb-src %s %s main\n", mirror, suite), 0o644); err != nil {
		return "", err
	}
	options := []string{"-o", "Dir::Etc::SourceList=" + list, "-o", "Dir::Etc::SourceParts=/dev/null",
		"-o", "Dir::State::Lists=" + filepath.Join(dir, "lists"), "-o", "Dir::Cache=" + filepath.Join(dir, "cache"),
		"-o", "APT::Sandbox::User=root"}
	if _, err := output(ctx, "apt-get", append(options, "update", "-q")...); err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, "apt-get", append(options, "source", "-q", "--download-only", "pytorch")...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("apt-get source pytorch: %w\n%s", err, tail(string(out)))
	}
	archives, err := filepath.Glob(filepath.Join(dir, "pytorch_*.orig.tar.*"))
	if err != nil || len(archives) != 1 {
		return "", fmt.Errorf("apt-get source pytorch gave the archives %v, and not one", archives)
	}
	_, err = output(ctx, "tar", "-xf", archives[0], "-C", dir, "--strip-components=1", "--wildcards",
		"*/test/distributed/*")
	return tests, err
}
