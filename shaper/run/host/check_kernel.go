// SPDX-License-Identifier: Apache-2.0

package host

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/ddlemu/ddlemu/shaper/kernel/netns"
	"github.com/ddlemu/ddlemu/shaper/kernel/shapers"
	"github.com/ddlemu/ddlemu/shaper/kernel/wire"
)

// kernelDatapath tests what the kernel datapath needs.
func (m Machine) kernelDatapath() []Check {
	const means = "for a fabric of the kernel datapath, which takes all traffic of its nodes; the shm datapath needs " +
		"no root"
	if lack := m.KernelLacks(); len(lack) > 0 {
		next := "sudo, or docker run --cap-add NET_ADMIN --cap-add SYS_ADMIN --cap-add NET_RAW"
		return []Check{
			{Name: "CAP_NET_ADMIN", Grade: Missing, Found: "no right to make network namespaces: no " +
				strings.Join(lack, ", "), Means: means, Next: next},
			{Name: "qdiscs and BPF", Grade: NotTested, Found: "needs root", Means: means, Next: next},
			{Name: "shaper", Grade: NotTested, Found: "needs root", Means: means, Next: next},
		}
	}
	kernel := &shapers.Kernel{}
	checks := []Check{
		{Name: "CAP_NET_ADMIN", Grade: OK, Found: "network namespaces can be made", Means: means},
		partsCheck(kernel.Features()),
		autoCheck(shapers.List(kernel)),
	}
	return append(checks, shaperChecks(shapers.List(kernel))...)
}

// WireCheck measures the time that the shaper wire adds to every packet.
func (m Machine) WireCheck(ctx context.Context) Check {
	k := Check{
		Name: "wire", Grade: OK,
		Means: "with the shaper wire of the kernel datapath, a smaller latency would be INVALID; the shm datapath has " +
			"no such minimum",
	}
	if len(m.KernelLacks()) > 0 {
		k.Grade, k.Found, k.Next = NotTested, "needs root", "sudo ddlemu doctor"
		return k
	}
	f, err := wire.MeasureFloor(ctx)
	if err != nil {
		k.Grade, k.Found, k.Next = NotTested, err.Error(), "run ddlemu doctor again, when nothing else runs"
		return k
	}
	k.Found = fmt.Sprintf("a packet without latency takes %v, 1 in 100 more than %v", f.P50.Round(100*time.Nanosecond),
		f.P99.Round(100*time.Nanosecond))
	return k
}

// KernelLacks returns the capabilities that this process lacks for the kernel datapath.
func (m Machine) KernelLacks() []string {
	return netns.MissingCapabilities(m.complete().read("/proc/self/status"))
}

// bySupport returns the names of the features that are supported, not supported, and not known.
func bySupport(all []shapers.Feature) (have, lack, open []string) {
	for _, f := range all {
		switch {
		case f.Err == nil:
			have = append(have, f.Name)
		case errors.Is(f.Err, shapers.ErrNotSupported):
			lack = append(lack, f.Name)
		default:
			open = append(open, fmt.Sprintf("%s (%v)", f.Name, f.Err))
		}
	}
	return have, lack, open
}

// describe describes features in words.
func describe(all []shapers.Feature) string {
	have, lack, open := bySupport(all)
	var parts []string
	for _, p := range []struct {
		what  string
		names []string
	}{{"", have}, {"not ", lack}, {"not known: ", open}} {
		if len(p.names) > 0 {
			parts = append(parts, p.what+strings.Join(p.names, ", "))
		}
	}
	return strings.Join(parts, "; ")
}

// partsCheck checks the kernel features that shapers are made of.
func partsCheck(all []shapers.Feature) Check {
	k := Check{Name: "qdiscs and BPF", Grade: OK, Found: describe(all),
		Means: "what the shapers of the kernel datapath are made of"}
	have := map[string]bool{}
	for _, p := range all {
		have[p.Name] = p.Err == nil
		if errors.Is(p.Err, shapers.ErrNotProbed) {
			k.Grade, k.Found, k.Next = NotTested, p.Err.Error(),
				"run ddlemu doctor as root, outside of a container that forbids namespaces"
			return k
		}
	}
	switch {
	case !have["htb"]:
		k.Grade, k.Means, k.Next = Missing,
			"the kernel cannot limit a rate: there is no kernel datapath; the shm datapath needs none of this",
			"use a distribution's kernel, which has sch_htb"
	case !have["netem"] && !have["fq"]:
		k.Grade, k.Means, k.Next = Warn, "the kernel can limit rates but not delay packets: a process of ddlemu does",
			"use a distribution's kernel, which has sch_netem and sch_fq (modprobe sch_netem sch_fq)"
	}
	return k
}

// autoCheck says which shaper --set shaper=auto selects.
func autoCheck(all []shapers.Info) Check {
	k := Check{Name: "shaper", Grade: OK, Means: "what --set shaper=auto selects"}
	without, with := "", ""
	for _, f := range all {
		if f.Err == nil && without == "" {
			without = f.Name
		}
		if f.Err == nil && f.AnyLatency && with == "" {
			with = f.Name
		}
	}
	switch {
	case without == "":
		k.Grade, k.Found, k.Means, k.Next = Missing, "none",
			"there is no kernel datapath; the shm datapath needs no shaper", "see qdiscs and BPF"
	case with == without:
		k.Found = with
	case with == "":
		k.Grade, k.Found, k.Next = Warn, without+" for links without latency, none for others", "see qdiscs and BPF"
	default:
		k.Found = fmt.Sprintf("%s for links without latency, %s for others", without, with)
	}
	return k
}

// shaperChecks says what each shaper does, and what it lacks.
func shaperChecks(all []shapers.Info) []Check {
	var checks []Check
	for _, f := range all {
		k := Check{Name: "shaper " + f.Name, Grade: OK, Found: "available", Means: f.Description}
		if f.Err != nil {
			k.Grade, k.Found, k.Next = Missing, f.Err.Error(), "use a kernel that has it; see qdiscs and BPF"
		}
		checks = append(checks, k)
	}
	return checks
}
