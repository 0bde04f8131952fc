// SPDX-License-Identifier: Apache-2.0

// Package variables knows the environment variables of NCCL and of ddlemu, and says which of those that are set have no
// effect where NCCL runs.
//
// nccl.tsv lists the variables of NCCL by version, each with its class. A set variable is used, or [Notes] has a line
// about it. This is the only place that decides about that: the commands and the plugin print what it says.
package variables
