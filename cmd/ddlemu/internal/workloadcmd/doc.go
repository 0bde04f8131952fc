// SPDX-License-Identifier: Apache-2.0

// Package workloadcmd has the command workload: files that say what a job does.
package workloadcmd
