// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"
)

var (
	kernelSizes   = []int64{64 << 10, 1 << 20}
	kernelStreams = []int{1, 2, 4}
)

// kernelFile is a fabric of the kernel datapath without limits, with jumbo frames.
const kernelFile = `name: speed
datapath: kernel
nodes: 2
nics_per_node: 1
link: {bandwidth: unlimited, latency: 0s, mtu: 9000, header: 40, framing: 38}
transport: {kind: tcp}
`

// kernel compares one connection over the kernel datapath, with several numbers of TCP streams, with a TCP connection
// over the loopback interface.
func (d *driver) kernel(ctx context.Context, build string) (s *section, err error) {
	s = newSection("One connection over the kernel datapath, unshaped, GB/s", "size", "1 stream", "of TCP", "2 streams",
		"of TCP", "4 streams", "of TCP", "TCP loopback")
	if os.Getuid() != 0 {
		s.note("Not measured: it takes root to make network namespaces.")
		return s, nil
	}
	file := filepath.Join(d.dir, "speed.yaml")
	if err := os.WriteFile(file, []byte(kernelFile), 0o600); err != nil {
		return nil, fmt.Errorf("describe a fabric: %w", err)
	}
	ddlemu := func(ctx context.Context, args ...string) error {
		ctx, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		if out, err := exec.CommandContext(ctx, filepath.Join(build, "bin", "ddlemu"),
			append([]string{"--dir", d.dir, "--owner", "0"}, args...)...).CombinedOutput(); err != nil {
			return fmt.Errorf("ddlemu %s: %w: %s", args[0], err, out)
		}
		return nil
	}
	if err := ddlemu(ctx, "up", "-f", file, "--no-measure"); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, ddlemu(context.WithoutCancel(ctx), "down", "speed")) }()
	for _, size := range kernelSizes {
		m, err := d.streams(ctx, size)
		if err != nil {
			return nil, err
		}
		row := []any{sizeText(size)}
		for _, n := range kernelStreams {
			key := strconv.Itoa(n)
			row = append(row, fmt.Sprintf("%.3g", m.median(key)/1e9), fmt.Sprintf("%.2f", m.ratio(key, "tcp")))
		}
		s.row(append(row, fmt.Sprintf("%.3g", m.median("tcp")/1e9))...)
	}
	s.note("With net API v8, which does not tell which receivers poll the data, so all data is copied once more.")
	return s, nil
}

// streams measures messages of size bytes with each number of streams, and plain TCP, in turn.
func (d *driver) streams(ctx context.Context, size int64) (samples, error) {
	m, text := samples{}, strconv.FormatInt(size, 10)
	for range repeats {
		figures, err := d.measure(ctx, nil, "tcp", text)
		if err != nil {
			return nil, err
		}
		m["tcp"] = append(m["tcp"], figures[0].value)
		for _, n := range kernelStreams {
			if figures, err = d.measure(ctx, []string{"DDLEMU_FABRIC=speed", fmt.Sprint("DDLEMU_STREAMS=", n)},
				"plugin", text); err != nil {
				return nil, err
			}
			m[strconv.Itoa(n)] = append(m[strconv.Itoa(n)], figures[0].value)
		}
	}
	return m, nil
}
