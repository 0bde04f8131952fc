#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Runs PyTorch's NCCL on real GPUs through the plugin; see --help.
set -uo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=test/gpu/lib.sh
source "$here/lib.sh"

usage() {
	cat <<'END'
usage: run.sh [flags]

Runs PyTorch with NCCL on this machine's NVIDIA GPUs, as several emulated nodes, and
checks values, the way that NCCL's connections take, and ddlemu's verdict. It needs a
built tree and a Python with PyTorch, and no Go. One GPU is enough: ranks share it, and
then the verdict must say that timings are INVALID. Each case prints one line, PASS,
FAIL or SKIP, with what was seen; the last line counts them.

  --build DIR     built tree with bin/ddlemu, bin/ddlemu-rank and lib/libgoemu.so
                  (default: $BUILD, else ../../build)
  --python PATH   Python that has PyTorch (default: $PYTHON, else python3)
  --only PATTERN  only cases whose name matches this shell pattern; a name or 'groups-*'
  --timeout SEC   limit of one case (default 120)
  --keep DIR      keep all logs in DIR, which must be new or empty
  --require       what would be skipped because the machine lacks a GPU, PyTorch or
                  NCCL counts as failed: for machines that should have them
  --backend NAME  nccl (default); gloo tries the scripts themselves on processors
  --help

Exit status: 0 if nothing failed, 1 if something did, 2 for bad flags, 130 if interrupted.
END
}

build=${BUILD:-$here/../../build}
python=${PYTHON:-python3}
only='*'
case_limit=120
script_end=$((SECONDS + 525)) # the whole must stay under 9 minutes
keep=""
require=no
backend=nccl

bad() {
	echo "run.sh: $1: see run.sh --help" >&2
	exit 2
}

while (($#)); do
	case $1 in
	--build | --python | --only | --timeout | --keep | --backend)
		(($# > 1)) || bad "$1 needs a value"
		case $1 in
		--build) build=$2 ;;
		--python) python=$2 ;;
		--only) only=$2 ;;
		--timeout) case_limit=$2 ;;
		--keep) keep=$2 ;;
		--backend) backend=$2 ;;
		esac
		shift 2
		;;
	--require) require=yes && shift ;;
	--help | -h) usage && exit 0 ;;
	*) bad "$1 is not a flag" ;;
	esac
done
[[ $case_limit =~ ^[1-9][0-9]*$ ]] || bad "--timeout $case_limit: give whole seconds above 0"
[[ -d $build ]] && build=$(cd "$build" && pwd) # it goes into LD_LIBRARY_PATH
[[ $backend == nccl || $backend == gloo ]] || bad "--backend $backend: give nccl or gloo"

# --- the cases

# The files that the rest needs, and whether they run here at all (glibc).
case_tree() {
	local file version
	for file in bin/ddlemu bin/ddlemu-rank lib/libgoemu.so; do
		[[ -f $build/$file ]] && continue
		seen="$file is not in $build: run \`make build\` on a machine with Go and copy build/ here, or give --build"
		return "$FAIL"
	done
	limited "$dir/version.log" "$build/bin/ddlemu" --version || return "$FAIL"
	version=$(<"$dir/version.log")
	limited "$dir/load.log" "$python" -c 'import ctypes, sys; ctypes.CDLL(sys.argv[1]).ncclNetPlugin_v8' "$build/lib/libgoemu.so" || return "$FAIL"
	seen="$version, libgoemu.so loads"
}

case_collectives() { # bare|run RANKS
	can_share "$2" || return
	emulated "$1" "$2" "$2" collectives.py || return "$FAIL"
	ways "$2" --only-net || return "$FAIL"
	judged "$1" "$2"
}

case_graph() {
	needs_nccl || return
	can_share 2 || return
	emulated bare 2 2 graph.py || return "$FAIL"
	ways 2 --only-net || return "$FAIL"
	judged bare
}

# The losses of an emulated run against those over NCCL's own transport.
case_ddp() {
	local own=()
	can_share 2 || return
	mkdir "$dir/emulated" "$dir/reference"
	emulated bare 2 2 train.py --out "$dir/emulated" || return "$FAIL"
	ways 2 --only-net || return "$FAIL"
	judged bare || return "$FAIL"
	if [[ $backend == nccl ]]; then
		((has[gpus] < 2)) && own=(--own-host)
		nccl_env 2
		log_env "$dir/reference"
		environment+=(NCCL_NET_PLUGIN=none)
	fi
	torchrun_of 2 train.py --out "$dir/reference" "${own[@]}"
	if ! limited "$dir/reference.log" env "${environment[@]}" "${command[@]}"; then
		seen="without the plugin: $seen"
		return "$FAIL"
	fi
	if grep -qs 'NET/goemu' "$dir"/reference/nccl.*.log; then
		seen="the run without the plugin used it"
		return "$FAIL"
	fi
	check losses.py --ranks 2 "$dir/emulated" "$dir/reference"
}

case_reinit() {
	can_share 2 || return
	emulated bare 2 2 reinit.py || return "$FAIL"
	ways 2 --only-net --comms 3 || return "$FAIL"
	judged bare
}

# Four ranks on two nodes. Ranks of one node are never in one group here, so NCCL
# accepts them on one GPU.
case_groups_across() {
	can_share 4 || return
	emulated bare 2 4 groups.py --kind across || return "$FAIL"
	ways 4 --only-net || return "$FAIL"
	judged bare
}

case_groups_within() {
	if [[ $backend == nccl ]] && ((has[gpus] < 2)); then
		seen="a node has 2 ranks, NCCL wants a GPU for each of them, and there is 1"
		return "$SKIP"
	fi
	can_share 4 || return
	emulated bare 2 4 groups.py --kind within || return "$FAIL"
	ways 4 --no-net || return "$FAIL"
	judged bare
}

case_nodes_2x2() {
	needs_nccl || return
	if ((has[gpus] < 4)); then
		seen="needs 4 GPUs, there are ${has[gpus]}"
		return "$SKIP"
	fi
	if [[ ${has[peers]} != yes ]]; then
		seen="these GPUs do not reach each other's memory, so there is no P2P within a node"
		return "$SKIP"
	fi
	emulated bare 2 4 collectives.py || return "$FAIL"
	ways 4 --ranks-per-node 2 --direct || return "$FAIL"
	judged bare
}

case_bench() {
	local path
	needs_nccl || return
	can_share 2 || return
	if [[ -z ${has[nccl_lib]} ]]; then
		seen="this PyTorch has NCCL linked in: there is no libnccl.so.2 for the bench"
		return "$SKIP"
	fi
	path=$(dirname "${has[nccl_lib]}")
	[[ -n ${has[cudart_lib]} ]] && path+=:$(dirname "${has[cudart_lib]}")
	nccl_env 2
	# Without log_env: the bench reads NCCL's log itself if nobody else wants it.
	limited "$dir/bench.log" env "${environment[@]}" \
		"LD_LIBRARY_PATH=$path${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" \
		"$python" "$here/output.py" "$dir/bench.json" \
		"$build/bin/ddlemu" bench allreduce --ranks 2 --profile eth10 --nccl "${has[nccl_lib]}" -b 1M -e 4M -f 4 -n 3 -w 1 --json || return "$FAIL"
	check benchjson.py --ranks 2 --gpus "${has[gpus]}" --mps "${has[mps]}" "$dir/bench.json"
}

# wait_for waits until the loop has done so many iterations.
wait_for() { # ITERATIONS
	while (($(wc -l <"$dir/times") < $1)); do
		if ! kill -0 "${guards[-1]}" 2>/dev/null || (($(left) <= 1)); then
			finish "$dir/job.log"
			seen="the loop did not come to iteration $1: ${seen:-it ended}"
			return "$FAIL"
		fi
		sleep 0.05
	done
}

iterations() { wc -l <"$dir/times"; }

shape() { # BANDWIDTH OUTPUT
	timeout 20 "$build/bin/ddlemu" shape --bw "$1" --json >"$2" 2>"$dir/shape.log" && return
	seen="ddlemu shape --bw $1: $(tail -n 1 "$dir/shape.log")"
	return "$FAIL"
}

case_shape() {
	local before after
	needs_nccl || return
	can_share 2 || return
	fabric_up 2 || return "$FAIL"
	: >"$dir/times"
	bare_command 2 loop.py --bytes 4194304 --times "$dir/times" --stop "$dir/stop" --limit "$(($(left) - 15))"
	start_limited "$dir/job.log" "${command[@]}"
	wait_for 8 || return "$FAIL"
	before=$(iterations)
	shape 100Mbps "$dir/slow.json" || return "$FAIL"
	wait_for $((before + 5)) || return "$FAIL"
	after=$(iterations)
	shape 10Gbps "$dir/fast.json" || return "$FAIL"
	wait_for $((after + 8)) || return "$FAIL"
	touch "$dir/stop"
	finish "$dir/job.log" || return "$FAIL"
	all_right 2 || return "$FAIL"
	ways 2 --only-net || return "$FAIL"
	check slowdown.py --before "$before" --after "$after" --bytes 4194304 --slow "$dir/slow.json" "$dir/times" || return "$FAIL"
	judged bare
}

# --- the run

# skip_all says why no case can run.
skip_all() { # REASON
	cant_run=$1 cant_status=$SKIP
	[[ $require == yes ]] && cant_status=$FAIL
}

# run_case runs one case in a folder of its own and reports it.
run_case() { # NAME FUNCTION ARG...
	local name=$1 status=0 text
	shift
	# shellcheck disable=SC2053 # a pattern is meant
	[[ $name == $only ]] || return 0
	if [[ -n $cant_run ]]; then
		report "$cant_status" "$name" "$cant_run"
		return
	fi
	if ((script_end - SECONDS < 10)); then
		report "$FAIL" "$name" "the script's time is used up"
		return
	fi
	dir=$work/$name seen="" case_end=$((SECONDS + case_limit))
	((case_end > script_end)) && case_end=$script_end
	mkdir -p "$dir"
	local start=$SECONDS
	"$@" || status=$?
	stop_all
	text=$seen
	if ! put_away && ((status == PASS)); then
		status=$FAIL text=$seen
	fi
	report "$status" "$name" "$text ($((SECONDS - start)) s)"
	((status == PASS || status == SKIP)) || tail_of "$dir"
}

# clean_up leaves nothing behind, however the script ends.
clean_up() {
	stop_all
	if [[ -n ${DDLEMU_DIR:-} && -d $DDLEMU_DIR ]]; then
		[[ -x $build/bin/ddlemu ]] && timeout 20 "$build/bin/ddlemu" down --all >/dev/null 2>&1
		rm -rf "$DDLEMU_DIR"
	fi
	[[ -z $keep && -n ${work:-} ]] && rm -rf "$work"
}

# set_up makes the folders and a clean environment.
set_up() {
	local name
	# What a user's shell or a batch system has set must not reach the jobs: the cases
	# set what they need.
	for name in $(compgen -e | grep -E '^(NCCL|DDLEMU|TORCH_NCCL|TORCHELASTIC|SLURM|OMPI|PMIX?)_'); do
		unset "$name"
	done
	# Under sudo ddlemu works for the calling user, and the ranks here run as root.
	unset SUDO_UID RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE GROUP_RANK GROUP_WORLD_SIZE MASTER_ADDR MASTER_PORT
	export OMP_NUM_THREADS=1 GLOO_SOCKET_IFNAME=lo PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
	trap clean_up EXIT
	trap 'exit 130' INT TERM HUP
	if [[ -n $keep ]]; then
		mkdir -p "$keep" && work=$(cd "$keep" && pwd) || exit 2
		[[ -z $(ls -A "$work") ]] || bad "--keep $keep: there is something in it"
	else
		work=$(mktemp -d "${TMPDIR:-/tmp}/ddlemu-gpu-XXXXXX") || exit 2
	fi
	DDLEMU_DIR=$(mktemp -d /dev/shm/ddlemu-gpu-XXXXXX) || exit 2 # of mode 0700
	export DDLEMU_DIR
}

# look finds out what this machine has, prints it, and sets cant_run if it is not enough.
look() {
	local key value
	if ! command -v "$python" >/dev/null; then
		if compgen -G '/dev/nvidia[0-9]*' >/dev/null || compgen -G '/proc/driver/nvidia/gpus/*' >/dev/null; then
			skip_all "there is no $python: give --python"
		else
			skip_all "no NVIDIA GPU"
		fi
		return
	fi
	case_end=$((SECONDS + case_limit)) dir=$work
	if ! limited "$work/probe.log" "$python" "$here/output.py" "$work/probe.txt" "$python" -W ignore "$here/probe.py"; then
		cant_run="look at this machine: $seen" cant_status=$FAIL
		tail_of "$work"
		return
	fi
	while IFS='=' read -r key value; do
		[[ -n $key ]] && has[$key]=$value
	done <"$work/probe.txt"
	torchrun=("${has[torchrun]:-}")
	[[ -n ${torchrun[0]} ]] || torchrun=("$python" -m torch.distributed.run)
	if ((has[gpus])); then
		echo "GPUs: ${has[gpus]} (${has[names]}), driver ${has[driver]}, CUDA ${has[cuda]}, MPS ${has[mps]}"
	fi
	[[ -n ${has[torch]:-} ]] && echo "PyTorch ${has[torch]}, NCCL ${has[nccl]:-none}, Python ${has[python]}"
	if [[ $backend == nccl && ${has[ready]} != yes ]]; then
		skip_all "${has[why]}"
	elif [[ -z ${has[torch]:-} ]]; then
		skip_all "$python has no PyTorch"
	fi
}

# choose_plugin is the value of NCCL_NET_PLUGIN that this NCCL understands.
choose_plugin() {
	local major minor
	IFS=. read -r major minor _ <<<"${has[nccl]:-2.21.0}"
	plugin=libgoemu.so
	# Before 2.21 NCCL always adds libnccl-net- in front and .so behind.
	((major == 2 && minor < 21)) && plugin=goemu
	return 0
}

cant_run="" cant_status=$SKIP plugin="" dir="" case_end=0
set_up
look
choose_plugin
if [[ $backend == nccl ]]; then
	run_case tree case_tree
	# Nothing else can be right without it.
	((failed)) && [[ -z $cant_run ]] && cant_run="the built tree cannot be used" cant_status=$SKIP
fi
for ranks in 2 4; do
	run_case "collectives-bare-$ranks" case_collectives bare "$ranks"
done
for ranks in 2 4; do
	run_case "collectives-run-$ranks" case_collectives run "$ranks"
done
run_case graph case_graph
run_case ddp case_ddp
run_case reinit case_reinit
run_case groups-across case_groups_across
run_case groups-within case_groups_within
run_case nodes-2x2 case_nodes_2x2
run_case bench case_bench
run_case shape case_shape
echo "$passed passed, $failed failed, $skipped skipped"
((failed == 0))
