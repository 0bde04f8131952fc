// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	dto "github.com/prometheus/client_model/go"

	"github.com/ddlemu/ddlemu/intercept/messages"
	"github.com/ddlemu/ddlemu/shaper/nccl"
)

// This file writes metrics with the names, units and labels of NCCL Inspector, NVIDIA's profiler plugin, for dashboards
// that are made for them. docs/metrics.md says what differs.

// inspectorLabels are the labels of Inspector's metrics of collectives that a recorded job has.
type inspectorLabels struct {
	job, name, algoProto, size string
	nodes, ranks               int
}

// inspectorSums are the calls with the same labels.
type inspectorSums struct {
	calls        int
	microseconds float64
	measured     int     // calls whose bus bandwidth is known
	logarithms   float64 // of their bus bandwidths
}

// inspectorFamilies are Inspector's metrics of collectives. Sends and receives are not in them.
func inspectorFamilies(calls []call, fabric string) []family {
	bandwidth := newFamily("nccl_bus_bandwidth_gbs",
		"Bus bandwidth of a collective in GB/s, geometric mean of the calls.", dto.MetricType_GAUGE)
	took := newFamily("nccl_collective_exec_time_microseconds",
		"Time of a collective in microseconds, mean of the calls.", dto.MetricType_GAUGE)
	var order []inspectorLabels
	all := map[inspectorLabels]*inspectorSums{}
	for i := range calls {
		c := &calls[i]
		if !c.collective {
			continue
		}
		key := inspectorLabels{c.job, c.name, profilerName(c.algo) + "_" + profilerName(c.proto), c.sizeRange(),
			c.nodes, c.ranks}
		s := all[key]
		if s == nil {
			s = &inspectorSums{}
			all[key] = s
			order = append(order, key)
		}
		s.add(c)
	}
	for _, key := range order {
		s := all[key]
		labels := []string{
			"version", "ddlemu", "cluster", fabric, "slurm_job_id", key.job, "comm_name", unknown, "n_nodes",
			strconv.Itoa(key.nodes), "nranks", key.ranksLabel(),
			"collective", key.name, "message_size", key.size, "algo_proto", key.algoProto,
		}
		if s.measured > 0 {
			bandwidth.add(math.Exp(s.logarithms/float64(s.measured)), labels...)
		}
		took.add(s.microseconds/float64(s.calls), labels...)
	}
	return []family{bandwidth, took}
}

func (s *inspectorSums) add(c *call) {
	s.calls++
	s.microseconds += c.seconds * 1e6
	if gbs, ok := c.busBandwidth(); ok {
		s.measured++
		s.logarithms += math.Log(gbs)
	}
}

// busBandwidth is defined as in nccl-tests, in GB/s of 10^9 bytes. ok is false if it is not known, or not defined.
func (c *call) busBandwidth() (gbs float64, ok bool) {
	coll, err := nccl.ParseCollective(c.name)
	if err != nil || coll.IsP2P() || !c.sized || c.ranks < 2 || c.seconds <= 0 {
		return 0, false
	}
	size := float64(c.bytes) * float64(coll.Shares(c.ranks))
	return size * coll.BusFactor(c.ranks) / c.seconds / 1e9, true
}

// bytesOf is the count of a collective's task in bytes. ok is false if it is not known.
func bytesOf(t *messages.Task) (n uint64, ok bool) {
	size := uint64(0)
	switch types, err := nccl.ParseDataTypes(t.Datatype); {
	case err == nil:
		size = uint64(types[0].Size())
	case strings.HasPrefix(t.Datatype, "fp8"), t.Func == "AllGather" || t.Func == "Broadcast":
		size = 1 // NCCL itself counts these two in bytes, and the software CUDA names no type for them
	}
	return t.Count * size, t.Count*size > 0
}

// sizeRange is the range of sizes that a call is in, as Inspector names it: of one unit, 8-9MB for 8.5 MiB.
func (c *call) sizeRange() string {
	if !c.sized {
		return unknown
	}
	units, lower := []string{"B", "KB", "MB", "GB", "TB"}, c.bytes
	for lower >= 1024 && len(units) > 1 {
		units, lower = units[1:], lower/1024
	}
	return fmt.Sprintf("%d-%d%s", lower, lower+1, units[0])
}

// profilerName is NCCL's name of an algorithm or protocol for profilers.
func profilerName(name string) string {
	switch name {
	case unknown:
		return unknown
	case "CollNetDirect":
		return "COLLNET_DIRECT"
	case "CollNetChain":
		return "COLLNET_CHAIN"
	case "NVLSTree":
		return "NVLS_TREE"
	}
	return strings.ToUpper(name)
}

// ranksLabel is the value of nranks.
func (l *inspectorLabels) ranksLabel() string {
	if l.ranks == 0 {
		return unknown
	}
	return strconv.Itoa(l.ranks)
}
