// SPDX-License-Identifier: Apache-2.0

package shm

import "github.com/ddlemu/ddlemu/nccl-plugin/transport/meet"

// HandleSize is the length of a handle.
const HandleSize = meet.HandleSize

const handleMagic = 0x316c646868656c64 // "dlehhdl1"

type handle = meet.Handle
