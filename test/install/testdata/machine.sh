#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs README's commands in a root folder of Debian that has only what README asks for: machine.sh ROOT PROJECT GOROOT
# MODULES CACHE. Go, its modules and what it compiled, and what `make build` downloaded are those of this machine. The mounts
# are in a namespace of their own.
set -euo pipefail
root=$1 project=$2 goroot=$3 modules=$4 cache=$5
here=/src/ddlemu # another path than this machine's, so that Go compiles the project's packages anew

bind() { # FOLDER PLACE
	mkdir -p "$1" "$root$2"
	mount --bind "$1" "$root$2"
}

mount --bind "$root" "$root" # the root of the kernel's mounts, as on a machine: programs make / private
mount -t proc proc "$root/proc"
mount --rbind /sys "$root/sys"
mount --rbind /dev "$root/dev"
mount -t tmpfs shm "$root/dev/shm"
bind "$goroot" /usr/local/go
bind "$modules" /root/go/pkg/mod
bind "$cache" /root/.cache/go-build
mkdir -p "$root$here"
tar -C "$project" --exclude=./build --exclude=./.git --exclude=node_modules -c . | tar -C "$root$here" -x --no-same-owner
bind "$project/build/cache" "$here/build/cache"
bind "$project/build/cache/debian" /var/cache/apt/archives
cp /etc/resolv.conf "$root/etc/resolv.conf"
echo "127.0.0.1 localhost" >"$root/etc/hosts" # Debian's installer and container engines write it

# step runs a command in the root. Its output is that of the command, and the time it took.
step() {
	echo "+ $*"
	SECONDS=0
	chroot "$root" env -i PATH=/usr/local/go/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root \
		CI=true GOFLAGS=-count=1 GOPROXY="$(go env GOPROXY)" sh -c "cd $here && $*" 2>&1
	echo "took $SECONDS s"
}

step make demo
printf "SQLite format 3\0%0999d" 0 >"$root/tmp/x.sqlite"
step "build/bin/ddlemu workload convert /tmp/x.sqlite 2>&1 | grep -F 'run \`make build\`'"
step make build
step make test-fast "WHICH='.ci/concurrent --programs'" # the others start no program
step .ci/packages test pypi
step "test -z \"\$(.ci/packages test pypi)\"" # each program is in its package
step go test -p 1 ./test/kernel ./test/nccl ./test/programs -run "'^Test(Capture|Tshark|Device|ShapeReports|VirtualTimeOfAnMPIProgram|RecordOnItsOwnNetwork|OpenMPIFailure|Hydra|Pdsh)'"
