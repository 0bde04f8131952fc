// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// linksPart is only measured on request, because its figures are on another page.
const linksPart = "links"

func main() {
	build := flag.String("build", "build", "`folder` that make build filled")
	page := flag.String("page", "", "`file` to write the figures into (default: none)")
	only := flag.String("only", "", "measure only the part of this `name`")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *build, *page, *only); err != nil {
		fmt.Fprintln(os.Stderr, "speed:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, build, page, only string) error {
	dir, err := os.MkdirTemp("/dev/shm", "ddlemu-speed-")
	if err != nil {
		return fmt.Errorf("make a folder for fabrics: %w", err)
	}
	defer os.RemoveAll(dir)
	d := &driver{program: filepath.Join(build, "bin", "speed"), plugin: filepath.Join(build, "lib"), dir: dir}
	if d.plugin, err = filepath.Abs(d.plugin); err != nil {
		return fmt.Errorf("find the plugin: %w", err)
	}
	parts := []struct {
		name    string
		measure func(context.Context) (*section, error)
	}{
		{"throughput", d.throughput},
		{"latency", d.latency},
		{"ledger", d.ledgerCost},
		{"connections", d.connections},
		{"flows", d.flows},
		{"kernel", func(ctx context.Context) (*section, error) { return d.kernel(ctx, build) }},
		{"allreduce2", func(ctx context.Context) (*section, error) { return d.allReduce(ctx, build, 2) }},
		{"allreduce4", func(ctx context.Context) (*section, error) { return d.allReduce(ctx, build, 4) }},
		{"torch", func(ctx context.Context) (*section, error) { return d.torchCalls(ctx, build) }},
		{linksPart, func(ctx context.Context) (*section, error) { return d.links(ctx, build) }},
	}
	var names []string
	for _, p := range parts {
		names = append(names, p.name)
	}
	if only != "" && !slices.Contains(names, only) {
		return fmt.Errorf("-only %s: there is no such part, but %s", only, strings.Join(names, ", "))
	}
	var figures strings.Builder
	fmt.Fprintf(&figures, "Measured on %s.\n\n", machine())
	for _, p := range parts {
		if only != p.name && (only != "" || p.name == linksPart) {
			continue
		}
		s, err := p.measure(ctx)
		if err != nil {
			return fmt.Errorf("measure %s: %w", p.name, err)
		}
		fmt.Println(s.text())
		figures.WriteString(s.markdown())
	}
	if page == "" {
		return nil
	}
	return write(page, figures.String())
}

func write(page, figures string) error {
	old, err := os.ReadFile(page)
	if err != nil {
		return fmt.Errorf("read the page: %w", err)
	}
	text, err := replace(string(old), figures)
	if err != nil {
		return err
	}
	if err := os.WriteFile(page, []byte(text), 0o644); err != nil {
		return fmt.Errorf("write the page: %w", err)
	}
	return nil
}
