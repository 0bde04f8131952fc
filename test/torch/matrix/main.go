// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"syscall"
)

// ncclVersions are those that the software CUDA has. The first is the default.
var ncclVersions = []string{"2.22", "2.29"}

func main() {
	var l lane
	flag.StringVar(&l.build, "build", "build", "`folder` of what make build made")
	flag.StringVar(&l.cache, "cache", "", "`folder` that keeps the downloads (default: cache/torch-matrix in -build)")
	only := flag.String("only", ".", "run the lines whose name matches this `expression`, such as 'trixie.*accelerate'")
	list := flag.Bool("list", false, "print the names of the lines, and run nothing")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := l.run(ctx, *only, *list)
	if err != nil {
		stop()
		fmt.Fprintln(os.Stderr, "torch-matrix:", err)
		os.Exit(1)
	}
}

// lane is what all lines share. Its paths are absolute.
type lane struct {
	repo, build, cache string
}

// line is a suite in an environment.
type line struct {
	environment *environment
	nccl        string
	suite       suite
}

func (l line) name() string { return l.environment.name + " " + l.nccl + " " + l.suite.name }

// lines returns all lines. What PyTorch has in several packages is run with the second version of NCCL only once.
func (l *lane) lines() []line {
	var lines []line
	for _, e := range l.environments() {
		for i, nccl := range ncclVersions {
			for _, s := range suites {
				if s.environments.MatchString(e.name) && (i == 0 || s.everyNCCL || s.secondNCCL == e.name) {
					lines = append(lines, line{e, nccl, s})
				}
			}
		}
	}
	return lines
}

func (l *lane) run(ctx context.Context, only string, list bool) error {
	wanted, err := regexp.Compile(only)
	if err != nil {
		return fmt.Errorf("-only: %w", err)
	}
	if err := l.makeAbsolute(); err != nil {
		return err
	}
	t := table{}
	for _, line := range l.lines() {
		switch {
		case !wanted.MatchString(line.name()):
		case list:
			fmt.Println(line.name())
		default:
			t.add(line, l.runLine(ctx, line))
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	if list {
		return nil
	}
	return t.print(os.Stdout)
}

func (l *lane) makeAbsolute() (err error) {
	if l.cache == "" {
		l.cache = filepath.Join(l.build, "cache", "torch-matrix")
	}
	for path, name := range map[*string]string{&l.repo: ".", &l.build: l.build, &l.cache: l.cache} {
		if *path, err = filepath.Abs(name); err != nil {
			return err
		}
	}
	if _, err := os.Stat(filepath.Join(l.repo, "test", "torch", "matrix", "main.go")); err != nil {
		return errors.New("start it in the root of the repository: `make torch-matrix`")
	}
	return os.MkdirAll(l.cache, 0o755)
}

// runLine makes the environment ready and runs the suite in it.
func (l *lane) runLine(ctx context.Context, line line) outcome {
	fmt.Printf("torch-matrix: %s\n", line.name())
	if err := line.environment.prepare(ctx, l); err != nil {
		return outcome{err: fmt.Errorf("%s: %w", line.environment.name, err)}
	}
	return line.suite.run(ctx, l, line)
}
