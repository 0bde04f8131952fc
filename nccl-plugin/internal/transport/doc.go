// SPDX-License-Identifier: Apache-2.0

// Package transport is what every datapath of the plugin shares: the table of functions
// that NCCL's calls go through (transport.h), and the control side, which makes, watches
// and ends connections.
//
// NCCL gives the handle that Listen writes to the peer, by its own bootstrap. The peer
// calls Connect with it, again and again until it gets a comm; the listening side calls
// Accept in the same way. The data that the two ends exchange for that is the datapath's.
package transport
