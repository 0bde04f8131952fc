// SPDX-License-Identifier: Apache-2.0

// Command decisions finds out what NCCL decides on each profile and system, and with each kind of GPU, and writes the
// tables of docs/decisions.md: make decisions.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/cuda/locate"
)

// The tables are between these lines of the page; the rest is written by hand.
const (
	markBegin = "<!-- tables of make decisions -->"
	markEnd   = "<!-- end of tables -->"
)

// mostNICs is the maximum number of NICs of a fabric.
const mostNICs = 100

// decideUpTo is the largest size in bytes that NCCL runs, by number of nodes: each node needs twice that in memory.
var decideUpTo = map[int]int64{2: 1 << 30, 4: 128 << 20}

func main() {
	build := flag.String("build", "build", "`folder` that make build filled")
	page := flag.String("page", "", "`file` to write the tables into (default: none)")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, filepath.Join(*build, "bin", "ddlemu"), *page); err != nil {
		fmt.Fprintln(os.Stderr, "decisions:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, ddlemu, page string) error {
	var text strings.Builder
	for _, version := range locate.SoftVersions {
		for _, nodes := range []int{2, 4} {
			t, nccl, err := tableOf(ctx, ddlemu, version, nodes)
			if err != nil {
				return err
			}
			fmt.Fprintf(&text, "### NCCL %s, AllReduce, %d nodes of one GPU\n\n%s\n\n", nccl, nodes, t.RenderMarkdown())
		}
		t, nccl, err := kinds(ctx, ddlemu, version)
		if err != nil {
			return err
		}
		fmt.Fprintf(&text, "### NCCL %s, AllReduce, kinds of GPUs: 2 nodes of 4 GPUs and 4 NICs of ndr400\n\n%s\n\n", nccl,
			t.RenderMarkdown())
		if t, nccl, err = systems(ctx, ddlemu, version); err != nil {
			return err
		}
		fmt.Fprintf(&text, "### NCCL %s, AllReduce, systems: 2 nodes with all their GPUs\n\n%s\n\n", nccl,
			t.RenderMarkdown())
	}
	fmt.Print(text.String())
	if page == "" {
		return nil
	}
	return write(page, text.String())
}

// tableOf returns the decisions of one version on all profiles.
func tableOf(ctx context.Context, ddlemu, version string, nodes int) (t table.Writer, nccl string, err error) {
	t = table.NewWriter()
	for _, profile := range configs.ProfileNames() {
		c, err := configs.Profile(profile)
		if err != nil {
			return nil, "", err
		}
		if c.NICsPerNode*nodes > mostNICs {
			continue
		}
		e, err := ask(ctx, ddlemu, version, decideUpTo[nodes], "--profile", profile, "--ranks", fmt.Sprint(nodes))
		if err != nil {
			return nil, "", err
		}
		add(t, "profile", profile, e)
		nccl = e.NCCL
	}
	return t, nccl, nil
}

// kinds returns the decisions of one version on the kinds of GPUs. The NICs of ndr400 are too fast for some of them.
func kinds(ctx context.Context, ddlemu, version string) (t table.Writer, nccl string, err error) {
	t = table.NewWriter()
	for _, gpu := range configs.GPUNames() {
		e, err := ask(ctx, ddlemu, version, decideUpTo[2], "--profile", "ndr400", "--gpu", gpu, "--ranks", "8", "--nodes",
			"2", "--nics-per-node", "4")
		if err != nil {
			return nil, "", err
		}
		add(t, "GPU", gpu, e)
		nccl = e.NCCL
	}
	return t, nccl, nil
}

// systemsUpTo is the largest size in bytes of a call on a system: the model of larger ones takes long.
const systemsUpTo = 128 << 20

// systems returns the decisions of one version on the systems.
func systems(ctx context.Context, ddlemu, version string) (t table.Writer, nccl string, err error) {
	t = table.NewWriter()
	for _, system := range configs.SystemNames() {
		// What nodes cost changes no decision.
		e, err := ask(ctx, ddlemu, version, systemsUpTo, "--profile", system, "--nodes", "2", "--node-time=off")
		if err != nil {
			return nil, "", err
		}
		add(t, "system", system, e)
		nccl = e.NCCL
	}
	return t, nccl, nil
}

// add adds a row for name to a table of what.
func add(t table.Writer, what, name string, e expectation) {
	header, row := table.Row{what}, table.Row{name}
	for _, r := range e.Rows {
		header = append(header, size(r.Size))
		choice := r.Algo + " " + r.Proto
		if r.Channels > 0 { // 0: the plan does not know the algorithm
			choice += fmt.Sprint(" ", r.Channels)
		}
		row = append(row, choice)
	}
	t.ResetHeaders()
	t.AppendHeader(header)
	t.AppendRow(row)
}

// expectation is the output of expect --json.
type expectation struct {
	NCCL string
	Rows []struct {
		Size        int64
		Algo, Proto string
		Channels    int
	}
}

// ask asks for the decisions of a version up to a size in bytes, on what more flags describe.
func ask(ctx context.Context, ddlemu, version string, most int64, flags ...string) (e expectation, err error) {
	args := append([]string{"expect", "allreduce", "--nccl", version, "--soft-cuda", "--nccl-view", configs.FabricView,
		"-b", "8", "-e", fmt.Sprint(most), "-f", "8", "-n", "1", "--decide-up-to", fmt.Sprint(most), "--json"}, flags...)
	cmd := exec.CommandContext(ctx, ddlemu, args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return e, fmt.Errorf("%s: %w", strings.Join(cmd.Args, " "), err)
	}
	if err := json.Unmarshal(out, &e); err != nil {
		return e, fmt.Errorf("output of %s: %w", strings.Join(cmd.Args, " "), err)
	}
	return e, nil
}

// size formats a power of two in bytes with the largest unit that divides it.
func size(bytes int64) string {
	for i, unit := range []string{"GiB", "MiB", "KiB"} {
		if one := int64(1) << (30 - 10*i); bytes >= one {
			return fmt.Sprintf("%d %s", bytes/one, unit)
		}
	}
	return fmt.Sprintf("%d B", bytes)
}

func write(page, tables string) error {
	old, err := os.ReadFile(page)
	if err != nil {
		return fmt.Errorf("read the page: %w", err)
	}
	before, rest, begins := strings.Cut(string(old), markBegin)
	_, after, ends := strings.Cut(rest, markEnd)
	if !begins || !ends {
		return fmt.Errorf("%s has no lines %q and %q to put the tables between", page, markBegin, markEnd)
	}
	text := before + markBegin + "\n\n" + tables + markEnd + after
	if err := os.WriteFile(page, []byte(text), 0o644); err != nil {
		return fmt.Errorf("write the page: %w", err)
	}
	return nil
}
