// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"strconv"

	"github.com/ddlemu/ddlemu/configs"
)

// repeats is the number of times that each comparison is made.
const repeats = 5

var throughputSizes = []int64{1 << 10, 8 << 10, 64 << 10, 1 << 20, 8 << 20, 64 << 20}

// bare are the plain methods to compare the plugin with.
var bare = []string{"ring", "memcpy", "process_vm_readv", "tcp", "unix"}

// throughput compares one unshaped connection with plain methods between two processes.
func (d *driver) throughput(ctx context.Context) (*section, error) {
	s := newSection("One connection, unshaped, GB/s", "size", "plugin", "two-copy ring", "of it", "one memcpy", "of it",
		"process_vm_readv", "TCP loopback", "unix socket")
	for _, size := range throughputSizes {
		var commands [][]string
		for _, way := range append([]string{"plugin"}, bare...) {
			commands = append(commands, []string{way, strconv.FormatInt(size, 10)})
		}
		m, err := d.rounds(ctx, repeats, commands...)
		if err != nil {
			return nil, err
		}
		of := func(way string) string { return fmt.Sprintf("%s %d", way, size) }
		gbs := func(way string) string { return fmt.Sprintf("%.3g", m.median(of(way))/1e9) }
		ratio := func(way string) string { return fmt.Sprintf("%.2f", m.ratio(of("plugin"), of(way))) }
		s.row(sizeText(size), gbs("plugin"), gbs("ring"), ratio("ring"), gbs("memcpy"), ratio("memcpy"),
			gbs("process_vm_readv"), gbs("tcp"), gbs("unix"))
	}
	return s, nil
}

// latency compares a round trip of 8 bytes with a cache line that two cores write in turn.
func (d *driver) latency(ctx context.Context) (*section, error) {
	m, err := d.rounds(ctx, repeats, []string{"pingpong"}, []string{"bounce"}, []string{"rate"}, []string{"calls"})
	if err != nil {
		return nil, err
	}
	s := newSection("Small messages", "what", "figure")
	s.row("8 bytes, one way, through isend, irecv and test", fmt.Sprintf("%.0f ns", m.median("pingpong 8")))
	s.row("a cache line, one way", fmt.Sprintf("%.0f ns", m.median("bounce 8")))
	s.row("ratio", fmt.Sprintf("%.2f", m.ratio("pingpong 8", "bounce 8")))
	s.row("messages of 8 bytes, 32 outstanding", fmt.Sprintf("%.2f million/s", m.median("rate 8")/1e6))
	for _, pair := range [][2]string{{"isend", "test_send"}, {"irecv", "test_recv"}} {
		s.row(fmt.Sprintf("%s + the test that completes it", pair[0]),
			fmt.Sprintf("%.0f + %.0f ns", m.median(pair[0]+" 8"), m.median(pair[1]+" 8")))
	}
	return s, nil
}

// connections measures the cost of more connections and of idle ones.
func (d *driver) connections(ctx context.Context) (*section, error) {
	m, err := d.rounds(ctx, repeats, []string{"connections", "2"}, []string{"connections", "4"},
		[]string{"connections", "8"}, []string{"connections", "16"}, []string{"idle", "64"})
	if err != nil {
		return nil, err
	}
	s := newSection("Several connections of one pair of processes, messages of 64 KiB", "connections", "GB/s together",
		"cost per byte against 2")
	for _, n := range []string{"2", "4", "8", "16"} {
		s.row(n, fmt.Sprintf("%.3g", m.median("connections "+n)/1e9),
			fmt.Sprintf("%.2f", m.ratio("connections 2", "connections "+n)))
	}
	s.note("A process with 64 open connections on which NCCL does not poll: %.2f %% of a core.",
		100*m.median("idle 64"))
	return s, nil
}

// Shaped flows with rates that a small host can carry.
const (
	flowLinks   = 4
	flowCount   = 16
	flowSeconds = "3"
	flowProfile = "eth1"
)

// flows compares the rates of 16 flows over 4 links with their shares of the links.
func (d *driver) flows(ctx context.Context) (*section, error) {
	c, err := configs.Profile(flowProfile)
	if err != nil {
		return nil, err
	}
	env := []string{"DDLEMU_PROFILE=" + flowProfile, fmt.Sprint("DDLEMU_NICS_PER_NODE=", flowLinks)}
	figures, err := d.measure(ctx, env, "flows", strconv.Itoa(flowLinks), strconv.Itoa(flowCount), flowSeconds)
	if err != nil {
		return nil, err
	}
	asked := c.Link.PayloadRate() * flowLinks / flowCount
	links := make([]float64, flowLinks)
	var worst, cpu float64
	for _, f := range figures {
		switch f.name {
		case "flow":
			links[f.number%flowLinks] += f.value
			if off := f.value/asked - 1; off*off > worst*worst {
				worst = off
			}
		case "flows_cpu":
			cpu = f.value
		}
	}
	s := newSection(fmt.Sprintf("%d flows over %d links of %s, messages of 128 KiB", flowCount, flowLinks, flowProfile),
		"link", "asked, MB/s", "got, MB/s", "off")
	for i, got := range links {
		want := c.Link.PayloadRate()
		s.row(fmt.Sprintf("nic%d", i), fmt.Sprintf("%.1f", want/1e6), fmt.Sprintf("%.1f", got/1e6),
			fmt.Sprintf("%+.2f %%", 100*(got/want-1)))
	}
	s.note(
		"Largest deviation of a flow from its quarter of a link: %+.1f %%. Both processes poll all the time: %.2f s "+
			"of CPU per GB.", 100*worst, cpu)
	return s, nil
}
