#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs packages of Debian in a root folder: add.sh ROOT PACKAGE... Its mounts are in a namespace of its own.
set -euo pipefail
root=$1
shift
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
cp /etc/resolv.conf "$root/etc/resolv.conf"
chroot "$root" env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive \
	apt-get install -q -y --no-install-recommends "$@"
