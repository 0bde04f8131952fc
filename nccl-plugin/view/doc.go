// SPDX-License-Identifier: Apache-2.0

// Package view describes an emulated node to NCCL, as the topology file that
// NCCL_TOPO_FILE names: the NICs of the fabric, with their speed and a latency that
// keeps its fraction, each where NCCL finds it near to the GPUs that it serves.
//
// What NCCL reads there, at the tags v2.22.3-1 to v2.29.7-1: ncclTopoGetXmlFromFile,
// ncclTopoFillGpu and ncclTopoFillNet (graph/xml.cc), ncclTopoGetSystem and
// ncclTopoAddPci (graph/topo.cc), ncclTopoComputePaths (graph/paths.cc).
//
//   - A net of the file is the plugin's NIC of that name. Attributes of the file stand;
//     what is missing comes from the plugin's properties, whose latency NCCL 2.24 and
//     later cut to whole microseconds.
//   - A GPU of the file is the one with that bus id. One that is missing is looked up in
//     /sys; if it isn't there either, it hangs on the CPU -1.
//   - Each rank reads its own file, and those of a node are put together: what has the
//     same place and name in several is one thing. So the ranks of a node must agree on
//     where its NICs are, and each need know no GPU but its own.
//   - All CPUs of the file must be alike in having no host_hash, or 2.22 takes
//     them for those of several hosts: so the file has all CPUs that this host has.
package view
