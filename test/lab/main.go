// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// suites of Debian. Debian 12 has Linux 6.1, without TCX. Debian 13 has 6.12. Its backports have a newer one.
var suites = []string{"bookworm", "trixie", "trixie-backports"}

// tested are the packages whose tests run.
var tested = []string{"./shaper/kernel/internal/bpf", "./test/shapers"}

// errSkip says that something cannot be run on this machine.
var errSkip = errors.New("SKIPPED")

func main() {
	build := flag.String("build", "build", "`folder` for lab/, which keeps the kernels")
	only := flag.String("suites", strings.Join(suites, ","), "`suites` of Debian whose kernels to run on")
	flag.Parse()
	suites = strings.Split(*only, ",")
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, filepath.Join(*build, "lab")); err != nil {
		stop()
		fmt.Fprintln(os.Stderr, "lab:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, dir string) error {
	for _, tool := range []string{qemu, "apt-get", "dpkg-deb", "xz"} {
		if _, err := exec.LookPath(tool); err != nil {
			fmt.Printf("lab: %v: %v\n", errSkip, err)
			return nil
		}
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	if err := compile(ctx, dir); err != nil {
		return err
	}
	// One after the other, because an emulated processor uses a real one fully.
	errs := make([]error, len(suites))
	for i, suite := range suites {
		errs[i] = testSuite(ctx, dir, suite, func(line string) { fmt.Printf("%-17s %s\n", suite, line) })
	}
	ran := 0
	for i, err := range errs {
		if errors.Is(err, errSkip) {
			fmt.Printf("%-17s %v\n", suites[i], err)
			errs[i] = nil
		} else {
			ran++
		}
	}
	fmt.Printf("lab: ran on %d of %d kernels\n", ran, len(suites))
	return errors.Join(errs...)
}

// compile builds the binaries that run in the machines. They are static, because the machines have no C library.
func compile(ctx context.Context, dir string) error {
	tests := filepath.Join(dir, "tests")
	if err := errors.Join(os.RemoveAll(tests), os.MkdirAll(tests, 0o755)); err != nil {
		return err
	}
	const static = "-ldflags=-s -w -linkmode external -extldflags -static"
	commands := [][]string{{"build", "-trimpath", "-tags=netgo,osusergo", static, "-o", filepath.Join(dir, "init"),
		"./test/lab/init"}}
	for _, p := range tested {
		commands = append(commands, []string{"test", "-c", "-trimpath", "-tags=netgo,osusergo", static, "-o",
			filepath.Join(tests, filepath.Base(p)+".test"), p})
	}
	for _, args := range commands {
		cmd := exec.CommandContext(ctx, "go", args...)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("go %v: %w\n%s", args, err, out)
		}
	}
	return nil
}

// testSuite runs the tests on a suite's kernel.
func testSuite(ctx context.Context, dir, suite string, say func(string)) error {
	start := time.Now()
	k, err := fetch(ctx, filepath.Join(dir, suite), suite)
	if err != nil {
		return fmt.Errorf("%s: %w", suite, err)
	}
	image := filepath.Join(dir, suite, "initrd.gz")
	if err := pack(image, k, dir); err != nil {
		return fmt.Errorf("%s: %w", suite, err)
	}
	say(fmt.Sprintf("lab: kernel %s, ready after %.0f s", k.version, time.Since(start).Seconds()))
	if err := boot(ctx, k.image, image, say); err != nil {
		return fmt.Errorf("%s, kernel %s: %w", suite, k.version, err)
	}
	return nil
}
