// SPDX-License-Identifier: Apache-2.0

// Package tracecmd has the commands for what crossed the links: messages, why, diff, whatif, pending, trace, capture
// and report.
package tracecmd
