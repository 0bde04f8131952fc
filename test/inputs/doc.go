// SPDX-License-Identifier: Apache-2.0

// Package inputs measures what made inputs cost: each reader of a file from outside reads damaged files and files that
// try to make it use much memory or time. See TestInputs.
package inputs
