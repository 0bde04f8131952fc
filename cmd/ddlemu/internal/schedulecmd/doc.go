// SPDX-License-Identifier: Apache-2.0

// Package schedulecmd has the command schedule: collectives as steps of thread blocks.
package schedulecmd
