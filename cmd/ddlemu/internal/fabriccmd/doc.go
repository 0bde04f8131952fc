// SPDX-License-Identifier: Apache-2.0

// Package fabriccmd has the commands for fabrics and this host: profiles, gpus, up, down, shape, fabric, status, top,
// serve, metrics, gc, doctor, exec, ssh, hostfile, dev and daemon.
package fabriccmd
