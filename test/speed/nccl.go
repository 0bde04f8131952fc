// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/cuda/locate"
	"github.com/ddlemu/ddlemu/shaper/fabric"
	"github.com/ddlemu/ddlemu/shaper/fabric/state"
	"github.com/ddlemu/ddlemu/shaper/nccl"
	"github.com/ddlemu/ddlemu/shaper/run/bench"
	"github.com/ddlemu/ddlemu/shaper/run/job"
)

const (
	ncclRepeats = 3
	ncclVersion = "2.29"
	stepTimeout = time.Minute
)

var ncclSizes = []int64{8, 64 << 10, 1 << 20, 8 << 20, 64 << 20}

// allReduce compares real NCCL over the unshaped plugin with its NET/Socket on the loopback interface: the same NCCL,
// the same software CUDA, one rank per node.
func (d *driver) allReduce(ctx context.Context, build string, ranks int) (*section, error) {
	layout := locate.Layout{Rank: filepath.Join(build, "bin", "ddlemu-rank"), Plugin: d.plugin,
		SoftCUDA: filepath.Join(build, "softcuda")}
	libs, err := layout.Soft(ncclVersion)
	if err != nil {
		return nil, err
	}
	plugin, socket := make([][]float64, len(ncclSizes)), make([][]float64, len(ncclSizes))
	for range ncclRepeats {
		if err := d.overPlugin(ctx, layout, libs, ranks, plugin); err != nil {
			return nil, err
		}
		if err := overSocket(ctx, layout, libs, ranks, socket); err != nil {
			return nil, err
		}
	}
	s := newSection(fmt.Sprintf("NCCL %s AllReduce, %d ranks on %d nodes, unshaped, time in us", ncclVersion, ranks,
		ranks), "size", "NET/goemu", "NET/Socket", "busbw ratio")
	for i, size := range ncclSizes {
		a, b := median(plugin[i]), median(socket[i])
		s.row(sizeText(size), fmt.Sprintf("%.0f", a), fmt.Sprintf("%.0f", b), fmt.Sprintf("%.2f", b/a))
	}
	return s, nil
}

func (d *driver) overPlugin(ctx context.Context, layout locate.Layout, libs locate.Libraries, ranks int,
	times [][]float64) error {
	c, err := configs.Profile("loopback")
	if err != nil {
		return err
	}
	c.Nodes, c.GPUsPerNode = ranks, 1
	f, err := fabric.New(c)
	if err != nil {
		return err
	}
	dir, err := state.OpenDir(d.dir, os.Getuid(), true)
	if err != nil {
		return err
	}
	defer dir.Close()
	j, err := job.Start(ctx, dir, f, "speed")
	if err != nil {
		return err
	}
	env := append(j.Env(), libs.Env(layout), "NCCL_NET_PLUGIN=goemu", "NCCL_NET=goemu", "NCCL_SOCKET_IFNAME=lo")
	err = measureNCCL(ctx, layout, libs, ranks, func(int) []string { return env }, times)
	if cerr := j.Close(); err == nil {
		err = cerr
	}
	return err
}

func overSocket(ctx context.Context, layout locate.Layout, libs locate.Libraries, ranks int, times [][]float64) error {
	return measureNCCL(ctx, layout, libs, ranks, func(rank int) []string {
		return []string{libs.Env(layout), "NCCL_NET_PLUGIN=none", "NCCL_NET=Socket", "NCCL_SOCKET_IFNAME=lo",
			fmt.Sprintf("NCCL_HOSTID=speed-%d", rank)}
	}, times)
}

// measureNCCL appends the out-of-place time of each size to times.
func measureNCCL(ctx context.Context, layout locate.Layout, libs locate.Libraries, ranks int,
	env func(rank int) []string, times [][]float64) error {
	r, err := bench.Run(ctx, bench.Config{
		Collective: nccl.AllReduce, Sizes: ncclSizes, Ranks: ranks, Iters: 10, Warmup: 2, Check: true,
		RankBinary: layout.Rank, NCCLLibs: libs.NCCL, CudartLibs: libs.Cudart, Stderr: os.Stderr,
		StepTimeout: stepTimeout, Env: env,
	}, nil)
	if err != nil {
		return err
	}
	if n := r.Wrong(); n > 0 {
		return fmt.Errorf("%d wrong elements", n)
	}
	for i, row := range r.Rows {
		times[i] = append(times[i], float64(row.OutOfPlace.Time.Nanoseconds())/1e3)
	}
	return nil
}
