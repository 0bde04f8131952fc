// SPDX-License-Identifier: Apache-2.0

// Package cli is what the commands of ddlemu share: common flags, errors with their exit statuses, output, tables and
// progress.
package cli
