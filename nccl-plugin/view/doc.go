// SPDX-License-Identifier: Apache-2.0

// Package view writes the topology file (NCCL_TOPO_FILE) that describes an emulated node to
// NCCL: the NICs of the fabric, with their speed and latency, each near the GPUs that it
// serves.
//
// How NCCL reads it, at the tags v2.22.3-1 to v2.29.7-1: ncclTopoGetXmlFromFile,
// ncclTopoFillGpu and ncclTopoFillNet (graph/xml.cc), ncclTopoGetSystem and
// ncclTopoAddPci (graph/topo.cc), ncclTopoComputePaths (graph/paths.cc).
//
//   - A net of the file is the plugin's NIC with that name. The attributes in the file are
//     used. Those that are missing come from the plugin's properties, whose latency NCCL
//     2.24 and later round down to whole microseconds.
//   - A GPU of the file is the one with that bus ID. NCCL looks up a missing GPU in /sys. If
//     it is not there either, NCCL puts it on CPU -1.
//   - Each rank reads its own file, and NCCL merges the files of a node: elements with the
//     same position and name are one. So the ranks of a node must agree on the position of
//     its NICs, and a rank need not know the other ranks' GPUs.
//   - Either all CPUs of the merged file have a host_hash or none. Otherwise 2.22 takes them
//     for CPUs of several hosts. So the file has all CPUs of this host.
package view
