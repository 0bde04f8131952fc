// SPDX-License-Identifier: Apache-2.0

package ncclxml

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/configs/importer/found"
	"github.com/ddlemu/ddlemu/configs/units"
)

// Kind of a topology file, for people.
const Kind = "NCCL topology of a node"

// Read reads a topology file: the node of a fabric.
func Read(text string, o found.Options) (*found.Fabric, error) {
	root, err := parse(text)
	if err != nil {
		return nil, err
	}
	m, err := readMachine(root)
	if err != nil {
		return nil, err
	}
	if err := m.check(); err != nil {
		return nil, err
	}
	m.order()
	m.regroup()
	out := o.Start(Kind)
	if o.Nodes == 0 {
		out.Note("the file describes one node: nodes is %d, --nodes changes it", out.Config.Nodes)
	}
	m.say(out)
	m.network(out, o.Base != nil)
	m.node(out)
	m.nvLinks(out)
	m.cpu(out)
	m.slots(out)
	m.others(out)
	return out, nil
}

// check refuses a file that is not of one node with GPUs and NICs.
func (m *machine) check() error {
	hosts := map[string]bool{}
	for _, c := range m.cpus {
		hosts[c.attr["host_hash"]] = true
	}
	switch {
	case len(hosts) > 1:
		return fmt.Errorf(
			"has %d hosts in one NVLink domain (MNNVL), a fabric's node is one host: let NCCL write the file with "+
				"NCCL_MNNVL_ENABLE=0", len(hosts))
	case len(m.gpus) == 0:
		return errors.New(
			"has no GPU: import the file that NCCL_TOPO_DUMP_FILE writes on such a machine, which has what NCCL finds " +
				"itself")
	case len(m.nics) == 0:
		return errors.New(
			"has GPUs and no NIC: let NCCL write the file in a job on several nodes; in a job on one node it leaves " +
				"the NICs out")
	case len(m.nics) > configs.MaxNICsPerNode:
		return fmt.Errorf("has %d NICs: a fabric's node has at most %d", len(m.nics), configs.MaxNICsPerNode)
	case len(m.gpus) > configs.MaxGPUsPerNode:
		return fmt.Errorf("has %d GPUs: a fabric's node has at most %d", len(m.gpus), configs.MaxGPUsPerNode)
	}
	return nil
}

// regroup numbers the NICs so that the NICs of a PCI switch follow each other, as a fabric has them.
func (m *machine) regroup() {
	group, _ := m.groups()
	if slices.IsSorted(group) {
		return
	}
	byGroup := make([]int, len(m.nics))
	for i := range byGroup {
		byGroup[i] = i
	}
	slices.SortStableFunc(byGroup, func(a, b int) int { return cmp.Compare(group[a], group[b]) })
	var nics []nic
	for _, i := range byGroup {
		nics = append(nics, m.nics[i])
	}
	m.nics = nics
	m.renumbered = true
}

// say tells what the file has.
func (m *machine) say(out *found.Fabric) {
	_, switches := m.groups()
	where := "on " + units.Count(switches, "PCI switch")
	if m.overCPU() {
		where = "on the CPUs"
	}
	out.Say("%s and %s %s, %s", units.Count(len(m.gpus), "GPU"), units.Count(len(m.nics), "NIC"), where,
		units.Count(len(m.cpus), "CPU"))
	names := make([]string, len(m.nics))
	for i, n := range m.nics {
		names[i] = n.name
		if n.rate != 0 {
			names[i] += " " + n.rate.String()
		}
	}
	out.Say("NICs: %s", strings.Join(names, ", "))
}

// network sets what the NICs are. based says that there is a base.
func (m *machine) network(out *found.Fabric, based bool) {
	c := &out.Config
	c.NICsPerNode, c.Links, c.Topology = len(m.nics), nil, configs.Topology{}
	if !based {
		out.Miss("lat", "the latency of the links")
	}
	count := map[units.Bandwidth]int{}
	for _, n := range m.nics {
		count[n.rate]++
	}
	if count[0] == len(m.nics) {
		if !based {
			out.Miss("bw", "the bandwidth of the NICs")
		} else {
			out.Note("the speed of the NICs is not in the file: %v of the base", c.Link.Bandwidth)
		}
	} else {
		m.rates(out, count)
	}
	m.net(out)
}

// rates sets the bandwidth: the rate of most NICs for the links, others by overrides.
func (m *machine) rates(out *found.Fabric, count map[units.Bandwidth]int) {
	c := &out.Config
	var most units.Bandwidth
	for rate, n := range count {
		if rate != 0 && (most == 0 || n > count[most] || n == count[most] && rate > most) {
			most = rate
		}
	}
	if c.Link.Bandwidth != most {
		c.Link.Bandwidth, c.NCCL.Speed = most, 0
	}
	for i, n := range m.nics {
		if n.rate == most {
			continue
		}
		rate := n.rate
		if rate == 0 {
			rate = most
			out.Note("the speed of NIC %d (%s) is not in the file: %v, as most others", i, n.name, most)
			continue
		}
		c.Links = append(c.Links,
			configs.LinkOverride{Match: fmt.Sprintf("*.nic%d", i), LinkPatch: configs.LinkPatch{Bandwidth: &rate}})
		out.Note(
			"NIC %d (%s) has %v, most others %v: NCCL is shown it too; if it is not for the job, remove its <net> "+
				"from the file", i, n.name, rate, most)
	}
}

// net finds out through which net NCCL sent, and what that told it of latency and GPUDirect.
func (m *machine) net(out *found.Fabric) {
	c := &out.Config
	if m.static {
		out.Note("the file has only PCI devices and no <net>: NCCL is told what the %s tells it", c.Shown())
		m.gpuDirect(out, c.Transport.Kind == configs.TCP)
		return
	}
	sockets := !slices.ContainsFunc(m.nics, func(n nic) bool { return n.port != 0 })
	if sockets && c.Transport.Kind != configs.TCP {
		c.Transport, c.NCCL = configs.DefaultTransport(configs.TCP), configs.NCCL{}
		out.Note("ports are 0, as NCCL's net for sockets has them: the transport is tcp")
	}
	latency := m.nics[0].latency
	if slices.ContainsFunc(m.nics, func(n nic) bool { return n.latency != latency }) {
		out.Note("the NICs tell NCCL different latencies: the latency of NIC 0, %v, for all", latency)
	}
	c.NCCL.Latency = configs.ShownLatency{Time: latency.Round(time.Nanosecond)}
	if latency != 0 && !sockets && c.NCCL.Net == "" {
		out.Note(
			"NCCL was told a latency of %v, which NCCL's own nets do not do: the net is a plugin, perhaps "+
				"aws-ofi-nccl; give nccl.net if it is", latency)
	}
	m.gpuDirect(out, sockets)
}

// overCPU reports whether no GPU reaches a NIC without crossing a CPU.
func (m *machine) overCPU() bool {
	_, kinds := m.nearest()
	return !slices.Contains(kinds, overPCI)
}

// gpuDirect sets whether the NICs access the GPUs' memory. NCCL lets them if no CPU is between them
// (NCCL_NET_GDR_LEVEL).
func (m *machine) gpuDirect(out *found.Fabric, sockets bool) {
	can := 0
	for _, n := range m.nics {
		if n.gdr != 0 {
			can++ // or the file does not say it
		}
	}
	no := false
	switch {
	case sockets:
	case can == 0:
		out.Config.GPUDirect = &no
	case m.overCPU() && !slices.ContainsFunc(m.gpus, func(g gpu) bool { return !g.c2c }):
		out.Note(
			"NVLink-C2C and a CPU are between the GPUs and the NICs, over which NCCL uses GPUDirect: in the fabric a " +
				"GPU is on a PCI switch with its NIC")
	case m.overCPU():
		out.Config.GPUDirect = &no
		out.Note(
			"a CPU is between each GPU and each NIC, where NCCL does not use GPUDirect unless NCCL_NET_GDR_LEVEL=PHB: " +
				"gpudirect is false")
	case can < len(m.nics):
		out.Note("%d of %s have GPUDirect: in the fabric all have", can, units.Count(len(m.nics), "NIC"))
	}
}

// node sets the GPUs, and which NICs are near to them.
func (m *machine) node(out *found.Fabric) {
	c := &out.Config
	near, kinds := m.nearest()
	c.Node, c.NICOfGPU, c.GPUsPerNode = configs.Node{GPUs: len(m.gpus)}, near, len(m.gpus)
	group, count := m.groups()
	sizes := make([]int, count)
	for _, g := range group {
		sizes[g]++
	}
	even := slices.Min(sizes) == slices.Max(sizes)
	switch {
	case m.overCPU():
	case even:
		c.Node.PCISwitches = count
	default:
		out.Note("the PCI switches have %v NICs: a fabric's have equal numbers, so each NIC has one of its own", sizes)
		c.Node.PCISwitches = len(m.nics)
	}
	used := map[int]bool{}
	for _, n := range near {
		used[group[n]] = true
	}
	if idle := count - len(used); idle > 0 && !m.overCPU() {
		out.Note(
			"%s with NICs and no GPU: NCCL writes down the GPUs that its job used; if the node has more, raise "+
				"node.gpus and nic_of_gpu", units.Count(idle, "PCI switch"))
	}
	far := 0
	for _, k := range kinds {
		if k != overPCI {
			far++
		}
	}
	if far > 0 && far < len(kinds) {
		out.Note(
			"%d of %s reach a NIC only over a CPU: in the fabric they are on the PCI switch of the NIC that is nearest",
			far, units.Count(len(kinds), "GPU"))
	}
}

// nvLinks sets the NVLinks of each GPU.
func (m *machine) nvLinks(out *found.Fabric) {
	c := &out.Config
	if m.static {
		if c.NVLinksPerGPU == 0 && len(m.gpus) > 1 {
			out.Miss("nvlinks-per-gpu", "the NVLinks of each GPU, which NCCL finds itself")
		}
		return
	}
	least, most, direct := m.gpus[0].toSwitch, 0, 0
	for _, g := range m.gpus {
		least, most, direct = min(least, g.toSwitch), max(most, g.toSwitch), direct+g.toGPU
	}
	c.NVLinksPerGPU = least
	if least != most {
		out.Note("the GPUs have %d to %d NVLinks to NVSwitches: a fabric's have the same number, here %d", least, most,
			least)
	}
	if direct > 0 {
		out.Note(
			"%s from GPU to GPU without a switch: a fabric has NVLinks to NVSwitches only, of which each GPU of the "+
				"file has %d; NCCL will decide otherwise within the node", units.Count(direct, "NVLink end"), least)
	}
}

// cpu sets the vendor of the CPUs.
func (m *machine) cpu(out *found.Fabric) {
	first := m.gpus[0].cpu
	vendor := map[string]string{"AuthenticAMD": configs.AMD, "GenuineIntel": configs.Intel}[first.attr["vendor"]]
	switch {
	case vendor != "":
		out.Config.CPU = vendor
	case first.attr["arch"] == "" && first.attr["vendor"] == "":
		out.Note("the vendor of the CPUs is not in the file: %s, --set cpu=VENDOR changes it", out.Config.NodeCPU())
	default:
		out.Note("CPUs of %s %s: a fabric's are of AMD or Intel, here %s", first.attr["vendor"], first.attr["arch"],
			out.Config.NodeCPU())
	}
	if len(m.cpus) > 1 {
		out.Note("%s (NUMA nodes): a fabric's node has one, so NCCL is not shown paths between CPUs",
			units.Count(len(m.cpus), "CPU"))
	}
}

// slots sets the PCI slots of the GPUs, and notes NICs that their slots do not carry: NCCL takes the slot's rate then.
func (m *machine) slots(out *found.Fabric) {
	slow := 0
	for _, n := range m.nics {
		rate := cmp.Or(n.rate, out.Config.Link.Bandwidth)
		if n.slot > 0 && uint64(n.slot)*100 < uint64(rate/units.Mbps)*95 {
			slow++
		}
	}
	if slow > 0 {
		out.Note(
			"the PCI slots of %s carry less than the NIC, at which NCCL expects less: in a fabric a slot carries its "+
				"NIC", units.Count(slow, "NIC"))
	}
	least, most := m.gpus[0].slot, 0
	for _, g := range m.gpus {
		least, most = min(least, g.slot), max(most, g.slot)
	}
	out.Config.Node.GPUSlot = units.Bandwidth(least) * units.Mbps
	if least != most {
		out.Note("the PCI slots of the GPUs carry %d to %d Gb/s: a fabric's are alike, here %d", least/1000, most/1000,
			least/1000)
	}
}

// others notes the remaining elements.
func (m *machine) others(out *found.Fabric) {
	if m.renumbered {
		out.Note("NICs of a PCI switch follow each other in a fabric: they are numbered anew, in the order above")
	}
	sm := map[int]bool{}
	c2c := 0
	guids := map[string]int{}
	for _, g := range m.gpus {
		sm[g.sm] = true
		if g.c2c {
			c2c++
		}
	}
	for _, n := range m.nics {
		if n.guid != "" && n.guid != "0x0" {
			guids[n.guid]++
		}
	}
	for _, v := range slices.Sorted(maps.Keys(sm)) {
		if v != 0 && v != 80 {
			out.Note("GPUs of compute capability %d.%d: give their kind with --gpu or gpu (`ddlemu gpus`), else the "+
				"software CUDA shows NCCL those of 8.0 (A100)", v/10, v%10)
		}
	}
	if c2c > 0 {
		out.Note("%s with NVLink-C2C to the CPU: a fabric has it with a kind of GPU that has it (--gpu)",
			units.Count(c2c, "GPU"))
	}
	for _, guid := range slices.Sorted(maps.Keys(guids)) {
		if n := guids[guid]; n > 1 {
			out.Note(
				"%d NICs have the GUID %s, as ports of one card, which NCCL takes for one NIC: in a fabric each is a "+
					"NIC of its own", n, guid)
		}
	}
	if per := len(m.nics) / len(m.gpus); per > 1 &&
		!slices.ContainsFunc(m.nics, func(n nic) bool { return n.vendor != "0x1d0f" }) {
		out.Note(
			"%d EFA devices for each GPU: aws-ofi-nccl's protocol RDMA shows NCCL one device for all near a GPU; see "+
				"the profile efa-p5", per)
	}
	for _, what := range slices.Sorted(maps.Keys(m.unknown)) {
		out.Note("not used: %d x %s", m.unknown[what], what)
	}
}
