// SPDX-License-Identifier: Apache-2.0

// Command decisions asks NCCL for its decisions on each profile and system, and with each kind of GPU, and prints them
// as tables: make decisions.
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

// mostNICs is the maximum number of NICs of a fabric.
const mostNICs = 100

// decideUpTo is the largest size in bytes that NCCL runs, by number of nodes: each node needs twice that in memory.
var decideUpTo = map[int]int64{2: 1 << 30, 4: 128 << 20}

func main() {
	build := flag.String("build", "build", "`folder` that make build filled")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, filepath.Join(*build, "bin", "ddlemu")); err != nil {
		fmt.Fprintln(os.Stderr, "decisions:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, ddlemu string) error {
	all, err := questions()
	if err != nil {
		return err
	}
	for _, version := range locate.SoftVersions {
		for _, q := range all {
			t, nccl, err := q.ask(ctx, ddlemu, version)
			if err != nil {
				return err
			}
			fmt.Printf("### NCCL %s, AllReduce, %s\n\n%s\n\n", nccl, q.title, t.RenderMarkdown())
		}
	}
	return nil
}

// question is what one table asks of a version of NCCL.
type question struct {
	title string
	what  string // the names are of this
	names []string
	most  int64 // bytes of the largest call
	flags func(name string) []string
}

// systemsUpTo is the largest size in bytes of a call on a system: the model of larger ones takes long.
const systemsUpTo = 128 << 20

// questions are the tables of a version, in their order.
func questions() ([]question, error) {
	var all []question
	for _, nodes := range []int{2, 4} {
		profiles, err := profilesFor(nodes)
		if err != nil {
			return nil, err
		}
		all = append(all, question{fmt.Sprintf("%d nodes of one GPU", nodes), "profile", profiles, decideUpTo[nodes],
			func(profile string) []string { return []string{"--profile", profile, "--ranks", fmt.Sprint(nodes)} }})
	}
	// The NICs of ndr400 are too fast for some kinds of GPUs.
	kinds := func(gpu string) []string {
		return []string{"--profile", "ndr400", "--gpu", gpu, "--ranks", "8", "--nodes", "2", "--set", "nics_per_node=4"}
	}
	systems := func(system string) []string { // what nodes cost changes no decision
		return []string{"--profile", system, "--nodes", "2", "--set=node_time=off"}
	}
	return append(all,
		question{"kinds of GPUs: 2 nodes of 4 GPUs and 4 NICs of ndr400", "GPU", configs.GPUNames(), decideUpTo[2], kinds},
		question{"systems: 2 nodes with all their GPUs", "system", configs.SystemNames(), systemsUpTo, systems}), nil
}

// profilesFor are the profiles whose fabrics of so many nodes are not too large.
func profilesFor(nodes int) (names []string, err error) {
	for _, profile := range configs.ProfileNames() {
		c, err := configs.Profile(profile)
		if err != nil {
			return nil, err
		}
		if c.NICsPerNode*nodes <= mostNICs {
			names = append(names, profile)
		}
	}
	return names, nil
}

// ask returns the decisions of one version, and its whole number.
func (q *question) ask(ctx context.Context, ddlemu, version string) (t table.Writer, nccl string, err error) {
	t = table.NewWriter()
	for _, name := range q.names {
		e, err := ask(ctx, ddlemu, version, q.most, q.flags(name)...)
		if err != nil {
			return nil, "", err
		}
		add(t, q.what, name, e)
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
	args := append([]string{"expect", "allreduce", "--nccl", version, "--soft-cuda", "--set", "nccl_view=" + configs.FabricView,
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
