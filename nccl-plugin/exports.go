// SPDX-License-Identifier: Apache-2.0

package main

/*
#cgo CFLAGS: -std=gnu11 -O2 -Wall -Wextra -Wno-unused-parameter -Werror
#include <stdlib.h>
#include "glue.h"
#include "internal/transport/transport.h"
*/
import "C"

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"sync"
	"unsafe"

	"github.com/ddlemu/ddlemu/nccl-plugin/internal/transport"
)

// This process as a participant of its fabric: from the first init until the process ends,
// since NCCL may finalise and init again.
var (
	mu     sync.Mutex
	joined *member
)

// guard turns a panic into an error, so that it does not end the training process.
func guard(result *C.int) {
	if r := recover(); r != nil {
		fail(C.DDLEMU_INTERNAL_ERROR, fmt.Errorf("internal error: %v\n%s", r, debug.Stack()))
		*result = C.DDLEMU_INTERNAL_ERROR
	}
}

// guardInit is guard for the start of the plugin, where NCCL may go on with its own nets.
func guardInit(result *C.int) {
	if r := recover(); r != nil {
		notEmulated(fmt.Errorf("internal error: %v\n%s", r, debug.Stack()))
		*result = C.DDLEMU_INTERNAL_ERROR
	}
}

// fail logs err and returns code.
func fail(code C.int, err error) C.int {
	logLine(C.NET_LOG_WARN, err.Error())
	return code
}

func logLine(level C.int, text string) {
	s := C.CString(text)
	defer C.free(unsafe.Pointer(s))
	C.net_log(level, s)
}

//export netInit
func netInit(commID C.uint64_t) (result C.int) {
	defer guardInit(&result)
	mu.Lock()
	defer mu.Unlock()
	if joined != nil {
		return C.DDLEMU_SUCCESS
	}
	if C.net_secure() != 0 {
		return notEmulated(errSecure)
	}
	if C.net_records() != 0 {
		return notEmulated(errRecords)
	}
	// Making connections needs few threads.
	runtime.GOMAXPROCS(2)
	m, err := join()
	if err != nil {
		return notEmulated(err)
	}
	if C.net_at_exit() != 0 {
		m.leave()
		return fail(C.DDLEMU_SYSTEM_ERROR, fmt.Errorf("register a function for the end of the process"))
	}
	joined = m
	m.announce()
	m.noteVariables()
	// The description of a large fabric takes tens of MB, which are not needed any more, in each of hundreds of ranks.
	debug.FreeOSMemory()
	return C.DDLEMU_SUCCESS
}

var errSecure = fmt.Errorf(
	"this program has more privileges than its user (setuid, setgid or file capabilities), so the user's environment " +
		"and fabrics are ignored: run it without them")

var errRecords = fmt.Errorf(
	"DDLEMU_RECORD is set, which only records what a job calls on its own network: unset it, or NCCL_NET_PLUGIN")

// notEmulated says on stderr that the traffic is not emulated: NCCL goes on with its own
// nets, and only its log says so.
func notEmulated(err error) C.int {
	fmt.Fprintf(os.Stderr, "ddlemu: traffic of this rank will NOT be emulated: %v\n", err)
	return fail(C.DDLEMU_SYSTEM_ERROR, fmt.Errorf("traffic of this rank will NOT be emulated: %w", err))
}

// current returns the participant, nil before init.
func current() *member {
	mu.Lock()
	defer mu.Unlock()
	return joined
}

var errNoInit = fmt.Errorf("called before init")

//export netDevices
func netDevices(n *C.int) (result C.int) {
	defer guard(&result)
	m := current()
	if m == nil {
		return fail(C.DDLEMU_INVALID_USAGE, errNoInit)
	}
	*n = C.int(len(m.nics))
	return C.DDLEMU_SUCCESS
}

//export netNIC
func netNIC(dev C.int, out *C.struct_net_nic) (result C.int) {
	defer guard(&result)
	m := current()
	if m == nil || dev < 0 || int(dev) >= len(m.nics) {
		return fail(C.DDLEMU_INVALID_ARGUMENT, fmt.Errorf("properties of NIC %d: there is none", dev))
	}
	nic := m.nics[dev]
	*out = C.struct_net_nic{name: nic.name, guid: C.uint64_t(nic.guid), speed: C.int(nic.speed),
		latency: C.float(nic.latency), port: C.int(nic.port)}
	return C.DDLEMU_SUCCESS
}

//export netListen
func netListen(dev C.int, handle unsafe.Pointer, id *C.uint64_t) (result C.int) {
	defer guard(&result)
	m := current()
	if m == nil || dev < 0 || int(dev) >= len(m.nics) {
		return fail(C.DDLEMU_INVALID_ARGUMENT, fmt.Errorf("listen on NIC %d: there is none", dev))
	}
	n, err := m.endpoint.Listen(m.nics[dev].number, (*[transport.HandleSize]byte)(handle))
	if err != nil {
		return fail(C.DDLEMU_SYSTEM_ERROR, err)
	}
	*id = C.uint64_t(n)
	return C.DDLEMU_SUCCESS
}

//export netConnect
func netConnect(dev C.int, handle unsafe.Pointer, comm *unsafe.Pointer) (result C.int) {
	defer guard(&result)
	*comm = nil
	m := current()
	if m == nil || dev < 0 || int(dev) >= len(m.nics) {
		return fail(C.DDLEMU_INVALID_ARGUMENT, fmt.Errorf("connect from NIC %d: there is none", dev))
	}
	c, err := m.endpoint.Connect(m.nics[dev].number, (*[transport.HandleSize]byte)(handle))
	if err != nil {
		return fail(C.DDLEMU_REMOTE_ERROR, err)
	}
	m.noteConnection(c)
	*comm = c
	return C.DDLEMU_SUCCESS
}

//export netAccept
func netAccept(listen C.uint64_t, comm *unsafe.Pointer) (result C.int) {
	defer guard(&result)
	*comm = nil
	m := current()
	if m == nil {
		return fail(C.DDLEMU_INVALID_USAGE, errNoInit)
	}
	c, err := m.endpoint.Accept(uint64(listen))
	if err != nil {
		return fail(C.DDLEMU_REMOTE_ERROR, err)
	}
	m.noteConnection(c)
	*comm = c
	return C.DDLEMU_SUCCESS
}

//export netClose
func netClose(id C.ulong) {
	var ignored C.int
	defer guard(&ignored)
	if m := current(); m != nil {
		m.endpoint.CloseComm(uint64(id))
	}
}

//export netCloseListen
func netCloseListen(id C.uint64_t) {
	var ignored C.int
	defer guard(&ignored)
	if m := current(); m != nil {
		m.endpoint.CloseListen(uint64(id))
	}
}

//export netReportError
func netReportError() {
	var ignored C.int
	defer guard(&ignored)
	text := transport.TakeError()
	if text == "" {
		text = "the call failed"
	}
	logLine(C.NET_LOG_WARN, text)
	if m := current(); m != nil {
		m.endpoint.CheckJob() // the peer may have gone because another rank died
		if m.settings.abort {
			abort(text)
		}
	}
}

//export netNodes
func netNodes(ranks, nodes C.size_t, costs C.int) {
	var ignored C.int
	defer guard(&ignored)
	if m := current(); m != nil {
		m.communicatorMade()
		m.checkNodes(int(ranks), int(nodes))
		m.checkAlone(int(ranks), int(nodes))
		if costs != 0 {
			m.protocol.tuned.Store(true)
		}
	}
}

//export netCommunicatorEnded
func netCommunicatorEnded() {
	var ignored C.int
	defer guard(&ignored)
	if m := current(); m != nil {
		m.participant.RemoveCommunicator()
	}
}

//export netKeptLL128
func netKeptLL128(collective *C.char, bytes C.size_t, sure C.int) {
	var ignored C.int
	defer guard(&ignored)
	if m := current(); m != nil {
		m.keptLL128(C.GoString(collective), uint64(bytes), sure != 0)
	}
}

//export netLeave
func netLeave() {
	var ignored C.int
	defer guard(&ignored)
	mu.Lock()
	m := joined
	joined = nil
	mu.Unlock()
	if m != nil {
		m.leave()
	}
}
