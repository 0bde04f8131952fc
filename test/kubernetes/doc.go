// SPDX-License-Identifier: Apache-2.0

// Package kubernetes tests the manifests of docs/examples/kubernetes against the types of Kubernetes. It is a module of
// its own, so that nothing else of the project depends on Kubernetes.
package kubernetes
