// SPDX-License-Identifier: Apache-2.0

// Package security tests which user may access what, where that needs the built plugin and another user.
// The other tests are in the packages: shaper/fabric/state (files and folders) and
// nccl-plugin/internal/shm (sockets, handles, memory).
package security
