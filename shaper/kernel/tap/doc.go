// SPDX-License-Identifier: Apache-2.0

// Package tap passes the packets on the links of a fabric from its daemon, which is root, to commands that look at
// them. A Hub in the daemon reads them from the shaper's eBPF programs or from a packet socket, and sends them to any
// number of clients over the daemon's Unix socket. Open is the client. While no client is connected, nothing is read.
package tap
