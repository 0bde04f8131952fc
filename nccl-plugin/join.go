// SPDX-License-Identifier: Apache-2.0

package main

/*
#include <stdlib.h>
#include "glue.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"os"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/nccl-plugin/internal/tcp"
	"github.com/ddlemu/ddlemu/nccl-plugin/internal/transport"
	"github.com/ddlemu/ddlemu/nccl-plugin/transport/shm"
	"github.com/ddlemu/ddlemu/shaper/fabric"
	"github.com/ddlemu/ddlemu/shaper/live"
	"github.com/ddlemu/ddlemu/shaper/state"
	"github.com/ddlemu/ddlemu/shaper/verdict"
)

// Variables of the plugin, besides those that choose and describe the fabric.
const (
	dirEnv    = "DDLEMU_DIR"
	fabricEnv = "DDLEMU_FABRIC"
	jobEnv    = "DDLEMU_JOB"
	memoryEnv = "DDLEMU_MEMORY"
	hostIDEnv = "NCCL_HOSTID"
	protoEnv  = "NCCL_PROTO"

	// The kernel datapath's.
	streamsEnv    = "DDLEMU_STREAMS"
	ipv6Env       = "DDLEMU_IPV6"
	completionEnv = "NCCL_NET_OPTIONAL_RECV_COMPLETION"
)

// defaultStreams is how many TCP streams a connection has on the kernel datapath:
// more carry no more, see docs/performance.md.
const defaultStreams = 1

// defaultMemory bounds the shared memory that one process reserves.
const defaultMemory = 256 << 20

// member is this process's part in its fabric.
type member struct {
	file      *state.File
	dir       *state.Dir
	part      *state.Participant
	endpoint  endpoint
	place     fabric.Placement
	nics      []nic
	decidesBy string // what NCCL decides by
	own       bool   // the fabric was made for this job alone
	protocol  protocol
}

// endpoint is this process's end of all its connections, on either datapath. Its
// methods are safe for concurrent use.
type endpoint interface {
	Listen(nic int, handle *[transport.HandleSize]byte) (id uint64, err error)
	CloseListen(id uint64)
	Accept(id uint64) (comm unsafe.Pointer, err error)
	Connect(nic int, handle *[transport.HandleSize]byte) (comm unsafe.Pointer, err error)
	CloseComm(id uint64)
	Close()
}

// nic is one NIC of this node, as NCCL is told of it.
type nic struct {
	number  int // in the fabric
	name    *C.char
	guid    uint64
	speed   int
	latency float64
}

// join finds or makes the fabric, this process's place in it, and its NICs.
func join() (*member, error) {
	if err := checkDescriptors(); err != nil {
		return nil, err
	}
	m := &member{}
	key := jobKey()
	if err := m.open(key); err != nil {
		return nil, err
	}
	fab, err := live.Fabric(m.file)
	if err != nil {
		return nil, err
	}
	job, err := m.file.JoinJob(key)
	if err != nil {
		return nil, err
	}
	if err := m.enter(fab, job); err != nil {
		job.Invalidate(state.NotEmulated)
		m.forget()
		return nil, err
	}
	return m, nil
}

// checkDescriptors makes sure that there are enough file descriptors to begin with:
// Go's runtime ends the process when it finds none for itself.
func checkDescriptors() error {
	const enough = 12 // the runtime's own, the folder, the fabric, the socket, a few connections
	for range enough {
		fd, err := unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("look for %d free file descriptors: %w: raise the limit (ulimit -n)", enough, err)
		}
		defer unix.Close(fd)
	}
	return nil
}

// forget removes a fabric of the job's own that nobody has joined.
func (m *member) forget() {
	if m.own && len(m.file.Participants()) == 0 {
		m.file.TakeDown()
		// There is nothing to tell: the reason for the failure is on its way.
		_ = m.dir.Remove(m.file.Name())
	}
}

func (m *member) enter(fab *fabric.Fabric, job state.Job) (err error) {
	if m.place, err = fabric.NodeOf(getenv, fab.Config.Nodes, fab.Config.GPUsPerNode); err != nil {
		return err
	}
	if err := m.checkHostID(job); err != nil {
		return err
	}
	budget := units.Size(defaultMemory)
	if text := getenv(memoryEnv); text != "" {
		if budget, err = units.ParseSize(text); err != nil {
			return fmt.Errorf("%s: %w", memoryEnv, err)
		}
	}
	r := state.Rank{Rank: m.place.Rank, Node: m.place.Node, World: m.place.World, Budget: uint64(budget), GPU: gpu(), HostID: hashOf(getenv(hostIDEnv))}
	if m.part, err = m.file.Join(job, r); err != nil {
		return err
	}
	if err := m.setView(fab, r.GPU); err != nil {
		m.part.Leave()
		return err
	}
	m.checkOthers(r)
	m.checkProtocol(r.GPU)
	if m.endpoint, err = newEndpoint(fab, m.file, m.part, r); err != nil {
		m.part.Leave()
		return err
	}
	for i := range fab.Config.NICsPerNode {
		n := fab.NIC(m.place.Node, i)
		p := fab.Props(n)
		// The name lives as long as the process: NCCL keeps the pointer.
		m.nics = append(m.nics, nic{number: n, name: C.CString(p.Name), guid: p.GUID, speed: p.SpeedMbps, latency: p.LatencyUs})
	}
	return nil
}

// newEndpoint is the one of the fabric's datapath.
func newEndpoint(fab *fabric.Fabric, f *state.File, me *state.Participant, r state.Rank) (endpoint, error) {
	if !fab.Config.OnKernel() {
		return shm.NewEndpoint(f, me, r)
	}
	// Unless this is off, NCCL says which receives are of LL and LL128.
	o := tcp.Options{Streams: defaultStreams, IPv6: isOn(getenv(ipv6Env)), Polled: getenv(completionEnv) == "0"}
	if text := getenv(streamsEnv); text != "" {
		var err error
		if o.Streams, err = configs.ParseInt(text); err != nil || o.Streams < 1 || o.Streams > tcp.MaxStreams {
			return nil, fmt.Errorf("%s: %q is not a number of streams: must be 1 to %d", streamsEnv, text, tcp.MaxStreams)
		}
	}
	return tcp.NewEndpoint(f, me, r, o)
}

func isOn(text string) bool { return text != "" && text != "0" }

// checkHostID makes sure that NCCL was told the node that this process is on: the
// constructor has done that, unless somebody else set NCCL_HOSTID.
func (m *member) checkHostID(job state.Job) error {
	want := fmt.Sprintf("ddlemu-node%d", m.place.Node)
	switch got := getenv(hostIDEnv); {
	case got == want:
		return nil
	case strings.HasPrefix(got, "ddlemu-"):
		return fmt.Errorf("NCCL was told %s, but this process is on node%d: set %s for it before NCCL starts", got, m.place.Node, fabric.NodeEnv)
	case got == "":
		return fmt.Errorf("NCCL_HOSTID is not set, so NCCL takes all ranks for one node: set NCCL_HOSTID=%s before NCCL starts", want)
	default:
		// Somebody else's: it is good as long as it has one value for each node,
		// see checkOthers.
		logLine(C.NET_LOG_INFO, fmt.Sprintf("NCCL_HOSTID %s was set by somebody else and is kept", got))
		return nil
	}
}

// gpu is the PCI bus id of the GPU of this thread's CUDA context, "" if there is
// none: NCCL calls init with one.
func gpu() string {
	var text [64]C.char
	if C.net_gpu(&text[0], C.size_t(len(text))) == 0 {
		return ""
	}
	return C.GoString(&text[0])
}

// checkOthers compares this process with the others of its job. Whoever of two
// joined later sees the other.
func (m *member) checkOthers(r state.Rank) {
	job := m.part.Job()
	shared := r.GPU != "" && getenv("CUDA_MPS_PIPE_DIRECTORY") == ""
	for _, p := range m.file.Participants() {
		if p.Job != job.Index() || p.Slot == m.part.Slot() {
			continue
		}
		// Ranks that share a GPU without MPS are time-sliced: then no time means anything.
		if shared && p.GPU == r.GPU {
			job.Invalidate(state.SharedGPU)
			m.file.Event(fmt.Sprintf("rank %d shares GPU %s with rank %d", r.Rank, r.GPU, p.Rank))
		}
		if (p.Node == r.Node) != (p.HostID == r.HostID) {
			job.Invalidate(state.ForeignHostID)
			m.file.Event(fmt.Sprintf("%s of ranks %d (node%d) and %d (node%d) does not fit their nodes", hostIDEnv, r.Rank, r.Node, p.Rank, p.Node))
		}
	}
}

// checkNodes compares what NCCL counted in a communicator with the processes of
// the job and the nodes that they are on. All ranks have joined by then.
func (m *member) checkNodes(ranks, nodes int) {
	job, here := m.part.Job(), 0
	for _, p := range m.file.Participants() {
		if p.Job == job.Index() {
			here++
		}
	}
	if ranks > here {
		job.Invalidate(state.SeveralRanks)
		logLine(C.NET_LOG_WARN, fmt.Sprintf("NCCL counts %d ranks in %d processes: traffic between ranks of one process is not emulated; give each rank a process", ranks, here))
		return
	}
	if want := job.Nodes(); nodes != want && m.areAll(ranks, here) {
		job.Invalidate(state.NodesDiffer)
		logLine(C.NET_LOG_WARN, fmt.Sprintf("NCCL counts %d nodes, the %d ranks are on %d emulated nodes: some traffic will go around the emulated links", nodes, ranks, want))
	}
}

// areAll says whether a communicator of so many ranks is one of the whole job, of which
// so many processes are here. Where no variable says how many there are, these are all
// if none has gone: then the nodes of the job are those of the communicator.
func (m *member) areAll(ranks, here int) bool {
	if m.place.World > 0 {
		return ranks == m.place.World
	}
	died, left := m.part.Job().Gone()
	return ranks == here && died+left == 0
}

// open opens the fabric named by DDLEMU_FABRIC, else the only one that is up,
// else one of the job's own.
func (m *member) open(key uint64) (err error) {
	path := getenv(dirEnv)
	if path == "" {
		path = state.DefaultDir(os.Getuid())
	}
	name := getenv(fabricEnv)
	if m.dir, err = state.OpenDir(path, os.Getuid(), name == ""); err != nil {
		return err
	}
	if name == "" {
		if name, err = m.dir.Shared(); err != nil {
			return err
		}
	}
	if name != "" {
		m.file, err = m.dir.Open(name)
		if errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("fabric %s is not up in %s: bring it up with `ddlemu up`, or unset %s", name, path, fabricEnv)
		}
		return err
	}
	m.own = true
	return m.openOwn(fmt.Sprintf("%s%016x", state.AdHocPrefix, key))
}

// openOwn opens or makes the fabric of this job, from DDLEMU_PROFILE and the
// other variables; unshaped if there are none.
func (m *member) openOwn(name string) error {
	c, err := configs.Load(configs.Source{Default: "loopback", Getenv: getenv})
	if err != nil {
		return err
	}
	if c.GPUsPerNode, c.Nodes, err = ownShape(c); err != nil {
		return err
	}
	fab, err := fabric.New(c)
	if err != nil {
		return err
	}
	spec, err := live.Spec(fab, name)
	if err != nil {
		return err
	}
	// The ranks race: one makes it, the others find it.
	for range 10 {
		if m.file, err = m.dir.Open(name); err == nil || !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if m.file, err = m.dir.Create(spec); err == nil || !errors.Is(err, fs.ErrExist) {
			return err
		}
		time.Sleep(time.Millisecond)
	}
	return err
}

// ownShape is the GPUs per node and the nodes of a job's own fabric: what
// DDLEMU_NODES and DDLEMU_GPUS_PER_NODE say, else a node for each rank.
func ownShape(c *configs.Fabric) (gpus, nodes int, err error) {
	world, err := fabric.WorldOf(getenv)
	if err != nil {
		return 0, 0, err
	}
	nodesGiven, gpusGiven := getenv("DDLEMU_NODES") != "", getenv("DDLEMU_GPUS_PER_NODE") != ""
	switch {
	case nodesGiven:
		return c.GPUsPerNode, c.Nodes, nil
	case world == 0:
		return 0, 0, fmt.Errorf("no fabric is up, and no launcher's variable says how many ranks there are: bring one up with `ddlemu up`, or set DDLEMU_NODES")
	case gpusGiven:
		return c.GPUsPerNode, (world + c.GPUsPerNode - 1) / c.GPUsPerNode, nil
	}
	return 1, world, nil
}

// jobKey names the job that this process is a rank of: the same for all its
// ranks, another for every other job on this host.
func jobKey() uint64 {
	known, text := false, ""
	for _, name := range []string{jobEnv, "TORCHELASTIC_RUN_ID", "MASTER_ADDR", "MASTER_PORT", "OMPI_MCA_ess_base_jobid", "PMIX_NAMESPACE", "PMI_JOBID", "SLURM_JOB_ID", "SLURM_STEP_ID", "NCCL_COMM_ID"} {
		if v := getenv(name); v != "" {
			known = true
			text += name + "=" + v + "\x00"
			if name == jobEnv {
				break
			}
		}
	}
	if !known {
		text = fmt.Sprintf("parent=%d", os.Getppid())
	}
	return hashOf(text)
}

func hashOf(text string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(text)) // never an error, as hash.Hash has it
	return h.Sum64()
}

// announce says once per job which fabric it runs on.
func (m *member) announce() {
	s := m.file.Fixed()
	line := fmt.Sprintf("fabric %s (%s), nodes %d, NICs per node %d, time scale %d; NCCL decides by %s", m.file.Name(), m.file.Profile(), s.Nodes, s.NICsPerNode, s.TimeScale, m.decidesBy)
	logLine(C.NET_LOG_INFO, fmt.Sprintf("rank %d is on node%d of %s", m.place.Rank, m.place.Node, line))
	if m.part.Job().Announce() && getenv(jobEnv) == "" {
		if m.own && getenv(configs.ProfileEnv) == "" && getenv(configs.FileEnv) == "" {
			line += "; no fabric is up and DDLEMU_PROFILE is not set, so nothing is shaped"
		}
		fmt.Fprintf(os.Stderr, "ddlemu: %s\n", line)
	}
}

// judge prints the verdict on the job that has just ended.
func (m *member) judge() {
	fab, err := live.Fabric(m.file)
	if err != nil {
		fmt.Fprintf(os.Stderr, "ddlemu: no verdict: %v\n", err)
		return
	}
	v := verdict.Of(m.file, fab, m.part.Job())
	for _, r := range v.Reasons {
		fmt.Fprintf(os.Stderr, "ddlemu: %s\n", r)
	}
	fmt.Fprintf(os.Stderr, "ddlemu: verdict on fabric %s: %s\n", m.file.Name(), v.Word)
}

// leave ends this process's part, at the end of the process.
func (m *member) leave() {
	m.endpoint.Close()
	m.settleProtocol()
	last := m.part.Leave()
	if last && getenv(jobEnv) == "" {
		m.judge() // nobody else does
	}
	if last && m.own {
		m.file.TakeDown()
		if err := m.dir.Remove(m.file.Name()); err != nil {
			fmt.Fprintf(os.Stderr, "ddlemu: %v\n", err)
		}
	}
}
