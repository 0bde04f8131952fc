// SPDX-License-Identifier: Apache-2.0

// Package verify runs `ddlemu verify` on fabrics that are up: as one that this host
// carries at the time scale given, as one that no host does, and with an engine into
// which a fault was planted. It is the test of the emulator on the wall clock.
package verify
