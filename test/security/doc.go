// SPDX-License-Identifier: Apache-2.0

// Package security holds the tests of who may use what: those that need the built
// plugin and another user. What one package decides alone is tested there:
// shaper/state (files and folders), nccl-plugin/transport/shm (sockets, handles,
// memory).
package security
