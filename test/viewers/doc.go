// SPDX-License-Identifier: Apache-2.0

// Package viewers tests that other programs read what ddlemu writes for them: Perfetto, Wireshark, a browser. The tests need
// `make build`, g++ and python3.
package viewers
