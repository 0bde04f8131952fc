#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs, uses and removes packages in a root folder: clean.sh ROOT PACKAGE SOFTCUDA TARBALL WHEEL. A line of the
# standard input has commands that end with a benchmark; they run in a folder with these files. Its mounts are in a
# namespace of its own.
set -euo pipefail
root=$1 package=$2
shift
mount -t proc proc "$root/proc"
mount --rbind /sys "$root/sys"
mount --rbind /dev "$root/dev"
mount -t tmpfs shm "$root/dev/shm"

in_root() { chroot "$root" env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root "$@"; }

# files lists the root's files, but not what dpkg and ldconfig write themselves, nor the folder of named network
# namespaces, which doctor makes as `ip netns` does.
files() {
	in_root find / -xdev -not -path '/var/lib/dpkg/*' -not -path '/var/log/*' -not -path '/var/cache/ldconfig/*' \
		-not -name ld.so.cache -not -name '*.pyc' -not -name __pycache__ -not -path /package.deb -not -path /run/netns | sort
}

! in_root sh -c 'command -v go || command -v cc || command -v gcc' || { echo "the root has a compiler" >&2; exit 1; }
files >"$root.before"
cp "$package" "$root/package.deb"
in_root dpkg -i /package.deb
in_root ddlemu version >"$root.version"
cat "$root.version"
grep -q '^software CUDA: *none: ' "$root.version" || { echo "version names a software CUDA that the package has not" >&2; exit 1; }
in_root ddlemu doctor --measure 0s
in_root ddlemu up --profile eth10 --nodes 2
in_root ddlemu status
in_root python3 -c '
import ctypes
plugin = ctypes.CDLL("libnccl-net-goemu.so")
ctypes.c_char.in_dll(plugin, "ncclNetPlugin_v12")
print("the plugin has ncclNetPlugin_v12")'
in_root ddlemu down
! in_root python3 -c 'import ctypes; ctypes.CDLL("libnccl-net.so")' || { echo "NCCL would load the plugin without being asked" >&2; exit 1; }
in_root env LD_LIBRARY_PATH=/usr/lib/ddlemu python3 -c 'import ctypes; ctypes.CDLL("libnccl-net.so")'
in_root sh -c 'cd /usr/share/doc/ddlemu && ddlemu up -F configs/examples/leaf-spine.yaml --clock virtual && ddlemu verify && ddlemu down'
# Each page or file that README names is there.
grep -o '](\([^)#]*\)' "$root/usr/share/doc/ddlemu/README.md" | cut -c3- | grep -v : | while read -r file; do
	test -e "$root/usr/share/doc/ddlemu/$file" || { echo "README.md names $file" >&2; exit 1; }
done
for file in man/man1/ddlemu-up.1.gz bash-completion/completions/ddlemu doc/ddlemu/copyright doc/ddlemu/NOTICES; do
	test -s "$root/usr/share/$file"
done
in_root dpkg --purge ddlemu

# Each way to a table begins without the others. `time` says the time of the clock, and of processors.
TIMEFORMAT='%0R s, processors %0U s and %0S s'
while read -r commands; do
	mkdir "$root/way"
	cp "$@" "$root/way"
	{ time in_root sh -c "cd /way && $commands" </dev/null >"$root.way"; } 2>"$root.time" || { cat "$root.time" >&2; exit 1; }
	head -n -1 "$root.time" >&2 # what the commands said
	echo "took $(tail -n 1 "$root.time"): $commands"
	cat "$root.way"
	grep -q '^verdict: VALID$' "$root.way"
	in_root dpkg --purge ddlemu-softcuda ddlemu
	rm -r "$root/way"
done
files >"$root.after"
diff "$root.before" "$root.after"
test -z "$(ls -A "$root/dev/shm")"
echo "nothing is left"
