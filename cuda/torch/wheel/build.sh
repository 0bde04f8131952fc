#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the wheel from what `make build` has made: build.sh BUILD VERSION [FOLDER]. VERSION is what .ci/version prints;
# FOLDER is where the wheel goes, BUILD/wheel by default. Prints the wheel's path.
set -euo pipefail
build=$(realpath "$1") version=$2
output=$(realpath -m "${3:-$build/wheel}")
root=$(realpath "$(dirname "$0")/../../..")
here=$root/cuda/torch/wheel
tree=$output/tree
cd "$root"

.ci/packages --check wheel >&2
rm -rf "$tree" "$output"/ddlemu-*.whl
mkdir -p "$tree"

# A wheel has no symbolic links. Another name of a library is a small library that needs it, so that a process which
# loads both has it once.
other_name() { # NAME LIBRARY
	gcc -shared -nostdlib -o "$(dirname "$2")/$1" -Wl,--no-as-needed -Wl,--enable-new-dtags "-Wl,-rpath,\$ORIGIN" "$2"
}

# The Python packages. `ddlemu run` also gives the backend to interpreters that do not have the wheel, from a folder that
# has nothing else.
cp -R "$here"/{ddlemu,pyproject.toml,hatch_build.py,README.md} "$build/torch/ddlemu_torch" "$tree/"
cp -R "$build/torch" "$tree/ddlemu/torch"
find "$tree" -name __pycache__ -prune -exec rm -rf {} +

# The programs and libraries, where the command looks for them.
mkdir "$tree"/ddlemu/{bin,lib}
cp "$build"/bin/{ddlemu,ddlemu-rank} "$tree/ddlemu/bin/"
cp "$build/lib/libgoemu.so" "$tree/ddlemu/lib/"
other_name libnccl-net-goemu.so "$tree/ddlemu/lib/libgoemu.so"
other_name libnccl-net.so "$tree/ddlemu/lib/libgoemu.so"
soft=$tree/ddlemu/softcuda/lib
mkdir -p "$soft"
cp -R "$build"/softcuda/lib/{libcudart.so.12,libcuda.so.1,libnvidia-ml.so.1,guest,nccl-*} "$soft/"
other_name libcudart.so "$soft/libcudart.so.12"
find "$soft" '(' -name '.*.stamp' -o -name libnccl.so ')' -delete

# The licences: of ddlemu, of NCCL, of Go and of the Go modules in the programs.
cp LICENSE "$tree/LICENSE"
.ci/ncclnotices "$build" "$tree"
.ci/notices >"$tree/LICENSE.go-and-modules"
chmod -R u+w "$tree"

echo "__version__ = \"$(.ci/version pip "$version")\"" >"$tree/version.py"

# The tag promises a glibc, and the libstdc++ of distributions that have that glibc (PEP 600).
mapfile -d '' files < <(find "$tree/ddlemu" -type f -print0)
read -r glibc gcc < <(.ci/libc "${files[@]}")
case $gcc in
11) least=2.34 ;;
12) least=2.35 ;;
13 | 14) least=2.39 ;;
*) echo "wheel: no tag of manylinux is known to have the libstdc++ of GCC $gcc" >&2 && exit 1 ;;
esac
tag=$(printf '%s\n' "$glibc" "$least" | sort -V | tail -1)
echo "manylinux_${tag/./_}_x86_64" >"$tree/platform"

(cd "$tree" && hatchling build --target wheel --directory "$output") >&2
rm -rf "$tree"
chmod 644 "$output"/ddlemu-*.whl
ls "$output"/ddlemu-*.whl
