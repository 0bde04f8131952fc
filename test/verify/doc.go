// SPDX-License-Identifier: Apache-2.0

// Package verify runs `ddlemu verify` on fabrics that are up: one that this host can carry at the given time scale, one
// that no host can carry, and one whose engine has a planted fault. It tests the emulator in real time.
package verify
