// SPDX-License-Identifier: Apache-2.0

// Package fit finds the times of a kind of GPU (the section time: of its file) with which the model is nearest to
// published tables, and says how far the model is from each table if its rows have no part in the figures.
//
// The figures are found by iterated least squares on the logarithms of the times: constants.go names the figures,
// search.go is the search, which knows nothing of NCCL, and model.go asks the model for the times of the rows.
package fit
