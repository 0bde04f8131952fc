// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// oneRun is longer than any measurement of the driver on a slow host.
const oneRun = 2 * time.Minute

// driver runs test/speed/driver, which makes one measurement with two processes.
type driver struct {
	program, plugin string
	dir             string // folder of fabrics
}

// figure is a line of the driver: the name of the measurement, its size or number, and its value.
type figure struct {
	name   string
	number int64
	value  float64
}

// measure runs the driver and returns its lines.
func (d *driver) measure(ctx context.Context, env []string, args ...string) ([]figure, error) {
	ctx, cancel := context.WithTimeout(ctx, oneRun)
	defer cancel()
	cmd := exec.CommandContext(ctx, d.program, args...)
	cmd.Env = append(clean(os.Environ()), "SPEED_PLUGIN="+filepath.Join(d.plugin, "libgoemu.so"), "DDLEMU_DIR="+d.dir,
		"DDLEMU_JOB=speed")
	cmd.Env = append(cmd.Env, env...)
	var errors strings.Builder
	cmd.Stderr = &errors
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("speed %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(errors.String()))
	}
	return parse(string(out))
}

// parse reads the driver's lines.
func parse(text string) ([]figure, error) {
	var all []figure
	for lines := bufio.NewScanner(strings.NewReader(text)); lines.Scan(); {
		f := strings.Fields(lines.Text())
		if len(f) != 3 {
			return nil, fmt.Errorf("the line %q of the driver has %d words, not 3", lines.Text(), len(f))
		}
		number, err := strconv.ParseInt(f[1], 10, 64)
		if err != nil {
			return nil, fmt.Errorf("read the driver's number: %w", err)
		}
		value, err := strconv.ParseFloat(f[2], 64)
		if err != nil {
			return nil, fmt.Errorf("read the driver's figure: %w", err)
		}
		all = append(all, figure{f[0], number, value})
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("the driver printed nothing")
	}
	return all, nil
}

// clean removes the variables of NCCL and ddlemu from an environment.
func clean(env []string) []string {
	return slices.DeleteFunc(slices.Clone(env), func(v string) bool {
		return strings.HasPrefix(v, "NCCL_") || strings.HasPrefix(v, "DDLEMU_")
	})
}

// samples are the figures of repeated measurements, by name.
type samples map[string][]float64

// rounds makes the measurement of each of commands n times, in turn. Keys are NAME NUMBER.
func (d *driver) rounds(ctx context.Context, n int, commands ...[]string) (samples, error) {
	s := samples{}
	for range n {
		for _, args := range commands {
			if err := d.sample(ctx, s, nil, args...); err != nil {
				return nil, err
			}
		}
	}
	return s, nil
}

// sample makes one measurement and adds its figures to s.
func (d *driver) sample(ctx context.Context, s samples, env []string, args ...string) error {
	figures, err := d.measure(ctx, env, args...)
	if err != nil {
		return err
	}
	for _, f := range figures {
		key := fmt.Sprintf("%s %d", f.name, f.number)
		s[key] = append(s[key], f.value)
	}
	return nil
}

// median is the median of the figures of key.
func (s samples) median(key string) float64 { return median(s[key]) }

// ratio is the median of a's figures divided by b's of the same round.
func (s samples) ratio(a, b string) float64 {
	var all []float64
	for i := range min(len(s[a]), len(s[b])) {
		all = append(all, s[a][i]/s[b][i])
	}
	return median(all)
}

func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	return (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
}
