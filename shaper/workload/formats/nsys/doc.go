// SPDX-License-Identifier: Apache-2.0

// Package nsys reads what Nsight Systems recorded of a job: its exports as SQLite and as JSON, with the ranges that
// NCCL writes by NVTX. Since NCCL 2.16 such a range says how many bytes the call moves, and since 2.25 on which
// communicator. Kernels have no sizes, so a recording without these ranges is refused, with the number of the calls
// that it has.
//
// The tables are in the schema 3.7 to 3.28 (Nsight Systems 2023.4 to 2026.4, Analysis Guide, SQLite Schema
// Reference), the events of the JSON are as 2023.4 and later write them, one a line. The layouts of the payloads
// are from NCCL (src/collectives.cc, src/init.cc, src/include/nvtx_payload_schemas.h).
package nsys
