// SPDX-License-Identifier: Apache-2.0

// Package viewers tests that other programs show what ddlemu writes for them: Perfetto, Wireshark, a browser, a
// terminal. The tests need `make build`, g++ and python3.
package viewers
