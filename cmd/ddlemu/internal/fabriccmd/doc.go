// SPDX-License-Identifier: Apache-2.0

// Package fabriccmd has the commands for a fabric: to bring it up, to look at it, to change it, to take it down, and to
// run programs on its nodes.
package fabriccmd
