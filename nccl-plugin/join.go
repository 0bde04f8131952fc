// SPDX-License-Identifier: Apache-2.0

package main

/*
#include <stdlib.h>
#include "glue.h"
*/
import "C"

import (
	"fmt"
	"hash/fnv"
	"os"
	"strings"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/nccl-plugin/internal/shm"
	"github.com/ddlemu/ddlemu/nccl-plugin/internal/tcp"
	"github.com/ddlemu/ddlemu/nccl-plugin/internal/transport"
	"github.com/ddlemu/ddlemu/shaper/fabric"
	"github.com/ddlemu/ddlemu/shaper/fabric/fabricfile"
	"github.com/ddlemu/ddlemu/shaper/fabric/state"
	"github.com/ddlemu/ddlemu/shaper/fabric/verdict"
	"github.com/ddlemu/ddlemu/shaper/nccl"
)

// member is this process as a participant of its fabric.
type member struct {
	file        *state.File
	dir         *state.Dir
	participant *state.Participant
	endpoint    endpoint
	placement   fabric.Placement
	settings    settings
	nics        []nic
	decidesBy   string // what NCCL decides by
	adHoc       bool   // the fabric was made for this job alone
	onKernel    bool   // the datapath is kernel
	changes     *changeNotes
	protocol    protocol
	failed      atomic.Bool // a rank of the job died, and no communicator was made since
	warnedAlone atomic.Bool // see checkAlone
}

// endpoint is this process's end of all its connections, on either datapath. Its
// methods are safe for concurrent use.
type endpoint interface {
	Listen(nic int, handle *[transport.HandleSize]byte) (id uint64, err error)
	CloseListen(id uint64)
	Accept(id uint64) (comm unsafe.Pointer, err error)
	Connect(nic int, handle *[transport.HandleSize]byte) (comm unsafe.Pointer, err error)
	CloseComm(id uint64)
	FailTogether(rankDied func(rank int))
	EachPeriod(do func())
	CheckJob()
	Close()
}

// nic is a NIC of this node, as NCCL sees it.
type nic struct {
	number  int     // in the fabric
	name    *C.char // never freed: NCCL keeps the pointer
	guid    uint64
	speed   int     // Mb/s
	latency float64 // us
	port    int
}

// join opens or makes the fabric, and makes this process a participant of it.
func join() (*member, error) {
	if err := checkDescriptors(); err != nil {
		return nil, err
	}
	m := &member{}
	key := jobKey()
	err := m.open(key)
	if err == nil {
		err = m.joinJob(key)
	}
	if err != nil {
		m.closeFiles()
		return nil, err
	}
	return m, nil
}

// joinJob makes this process a participant of its job in the open fabric.
func (m *member) joinJob(key uint64) error {
	fab, err := fabricfile.Read(m.file)
	if err != nil {
		return err
	}
	job, err := m.file.JoinJob(key)
	if err != nil {
		return err
	}
	if err := m.enter(fab, job); err != nil {
		job.Invalidate(state.NotEmulated)
		m.removeUnused()
		return err
	}
	return nil
}

// closeFiles closes the fabric and its folder, after a failure. The file stays open if this process was a participant:
// threads may still read it.
func (m *member) closeFiles() {
	if m.file != nil && m.participant == nil {
		_ = m.file.Close() // the caller reports the failure that came before
	}
	if m.dir != nil {
		_ = m.dir.Close()
	}
}

// checkDescriptors makes sure that NCCL can poll as many file descriptors as it does, and that some are free: without
// one, Go's runtime would end the process.
func checkDescriptors() error {
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &l); err != nil {
		return fmt.Errorf("read the limit of open files: %w", err)
	}
	if err := nccl.CheckDescriptors(l.Cur); err != nil {
		return err
	}
	const enough = 12 // for the runtime, the folder, the fabric, the socket and a few connections
	for range enough {
		fd, err := unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("look for %d free file descriptors: %w: raise the limit (ulimit -n)", enough, err)
		}
		defer unix.Close(fd)
	}
	return nil
}

// enter finds this process's node, makes the process a participant, and makes its
// endpoint and its NICs.
func (m *member) enter(fab *fabric.Fabric, job state.Job) (err error) {
	if m.placement, err = fabric.NodeOf(getenv, fab.Config.Nodes, fab.Config.GPUsPerNode); err != nil {
		return err
	}
	if err := m.checkHostID(); err != nil {
		return err
	}
	p := m.placement
	if m.settings, err = readSettings(getenv, p.World); err != nil {
		return err
	}
	exit, err := expectedExit(getenv, p.Rank)
	if err != nil {
		return err
	}
	r := state.Rank{Rank: p.Rank, Node: p.Node, World: p.World, Budget: uint64(m.settings.memory), GPU: busID(false),
		HostID: hashOf(getenv(hostIDEnv)), Exit: exit}
	if m.participant, err = m.file.Join(job, r); err != nil {
		return err
	}
	if !tellsOfCommunicators(int(C.net_nccl_version()), getenv("NCCL_TUNER_PLUGIN")) {
		m.participant.NotePast()
	}
	if err := m.takePart(fab, r); err != nil {
		m.participant.Leave()
		return err
	}
	for _, i := range fab.ListedNICs(p.Node) {
		n := fab.NIC(p.Node, i)
		props := fab.Props(n)
		m.nics = append(m.nics, nic{number: n, name: C.CString(props.Name), guid: props.GUID, speed: props.SpeedMbps,
			latency: props.LatencyUs, port: props.Port})
	}
	return nil
}

// takePart makes what a participant needs.
func (m *member) takePart(fab *fabric.Fabric, r state.Rank) (err error) {
	if err := setVariables(fab.Config.NCCL.Variables); err != nil {
		return err
	}
	if err := m.setView(fab, r.GPU); err != nil {
		return err
	}
	m.checkOthers(r)
	m.checkProtocol(r.GPU)
	if m.endpoint, err = m.newEndpoint(fab, r); err != nil {
		return err
	}
	if err = m.setClock(); err == nil {
		err = m.setNode()
	}
	if err == nil {
		err = m.openLedger(r)
	}
	if err != nil {
		m.endpoint.Close()
		return err
	}
	if m.settings.together {
		m.endpoint.FailTogether(m.rankDied)
	}
	if limit := fabricfile.DownLimit(m.file, fab); limit != "" {
		w := &downWatch{file: m.file, nics: fab.Config.NICsPerNode, node: r.Node, limit: limit,
			warn: func(text string) { logLine(C.NET_LOG_WARN, text) }}
		m.endpoint.EachPeriod(w.poll)
	}
	return nil
}

// setClock hands the fabric's virtual clock, if it has one, to the software CUDA.
func (m *member) setClock() error {
	if !m.file.Virtual() {
		return nil
	}
	refuse := func(name string) error {
		return fmt.Errorf("fabric %s has a virtual clock, which cannot tell what NCCL does with %s: unset it",
			m.file.Name(), name)
	}
	for _, name := range []string{"NCCL_SHM_USE_CUDA_MEMCPY", "NCCL_P2P_USE_CUDA_MEMCPY", "NCCL_OOB_NET_ENABLE"} {
		if isOn(getenv(name)) {
			return refuse(name)
		}
	}
	// GROUP has a barrier between the ranks of a process. It ends with a store in memory, which raises no number.
	if name := "NCCL_LAUNCH_MODE"; strings.EqualFold(getenv(name), "GROUP") {
		return refuse(name)
	}
	settings, err := configs.ReadClockSettings(getenv)
	if err != nil {
		return err
	}
	if C.net_set_clock(shm.ClockCalls(settings)) != 0 {
		return fmt.Errorf(
			"fabric %s has a virtual clock, which needs the software CUDA in each rank: bring the fabric up with "+
				"--clock real", m.file.Name())
	}
	var fd C.int
	var base unsafe.Pointer
	var size C.size_t
	if C.net_gpu_memory(&fd, &base, &size) == 0 {
		m.endpoint.(*shm.Endpoint).ShareGPU(shm.Memory{FD: int(fd), Base: base, Size: uint64(size)})
	}
	return nil
}

// setNode hands the time of this process's node on a real clock, if the fabric has it, to the software CUDA.
func (m *member) setNode() error {
	calls := shm.NodeCalls()
	if calls == nil {
		return nil
	}
	if C.net_set_node(calls) != 0 {
		return fmt.Errorf(
			"the nodes of fabric %s cost time, which needs the software CUDA in each rank: bring the fabric up with "+
				"--set=node_time=off", m.file.Name())
	}
	return nil
}

// newEndpoint makes the endpoint for the fabric's datapath.
func (m *member) newEndpoint(fab *fabric.Fabric, r state.Rank) (endpoint, error) {
	if m.onKernel = fab.Config.OnKernel(); m.onKernel {
		// NCCL marks the receives of LL and LL128, unless this is off.
		polled := getenv(completionEnv) == "0"
		return tcp.NewEndpoint(m.file, m.participant, r, tcp.Options{Streams: m.settings.streams, IPv6: m.settings.ipv6,
			Polled: polled})
	}
	return shm.NewEndpoint(m.file, m.participant, r, fab.FlowPaths())
}

func isOn(text string) bool { return text != "" && text != "0" }

// busID is the PCI bus ID of the GPU of this thread's CUDA context, "" if it has none.
// With soft it asks for a GPU of the software CUDA, otherwise for a real one.
func busID(soft bool) string {
	var text [64]C.char
	if C.net_gpu(&text[0], C.size_t(len(text)), boolInt(soft)) == 0 {
		return ""
	}
	return C.GoString(&text[0])
}

func boolInt(b bool) C.int {
	if b {
		return 1
	}
	return 0
}

func hashOf(text string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(text)) // hash.Hash never returns an error
	return h.Sum64()
}

// announce says once per job which fabric it runs on.
func (m *member) announce() {
	s := m.file.Fixed()
	line := fmt.Sprintf("fabric %s (%s), nodes %d, NICs per node %d, time scale %d; NCCL decides by %s", m.file.Name(),
		m.file.Profile(), s.Nodes, s.NICsPerNode, s.TimeScale, m.decidesBy)
	logLine(C.NET_LOG_INFO, fmt.Sprintf("rank %d is on node%d of %s", m.placement.Rank, m.placement.Node, line))
	if m.participant.Job().Announce() && getenv(jobEnv) == "" {
		if m.adHoc && getenv(configs.ProfileEnv) == "" && getenv(configs.FileEnv) == "" {
			line += "; no fabric is up and DDLEMU_PROFILE is not set, so nothing is shaped"
		}
		fmt.Fprintf(os.Stderr, "ddlemu: %s\n", line)
	}
}

// leave ends this process's participation, at the end of the process. The last process of
// a job prints the verdict, if no command does, and removes the job's ad-hoc fabric.
func (m *member) leave() {
	m.endpoint.Close()
	m.changes.close()
	m.settleProtocol()
	if C.net_exit_status() != 0 {
		m.participant.ExitsBadly()
	}
	last := m.participant.Leave()
	if last && getenv(jobEnv) == "" {
		m.printVerdict()
	}
	if last && m.adHoc {
		m.file.TakeDown()
		if err := m.dir.Remove(m.file.Name()); err != nil {
			fmt.Fprintf(os.Stderr, "ddlemu: %v\n", err)
		}
	}
}

// printVerdict prints the verdict on the job that has just ended.
func (m *member) printVerdict() {
	fab, err := fabricfile.Read(m.file)
	if err != nil {
		fmt.Fprintf(os.Stderr, "ddlemu: no verdict: %v\n", err)
		return
	}
	v := verdict.Of(m.file, fab, m.participant.Job())
	more := "`ddlemu status --last --verbose`"
	if m.adHoc { // its fabric is about to go, and nobody can ask later
		more = ""
	}
	for _, line := range v.Lines(more) {
		fmt.Fprintf(os.Stderr, "ddlemu: %s\n", line)
	}
	fmt.Fprintf(os.Stderr, "ddlemu: verdict on fabric %s: %s\n", m.file.Name(), v.Word)
}
