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

Runs PyTorch with NCCL on this machine's NVIDIA GPUs as several emulated nodes. It checks
the values, the transports of NCCL's connections, and ddlemu's verdict. It needs a built
tree and a Python with PyTorch; it does not need Go. One GPU is enough: then ranks share it,
and the verdict must be INVALID. Each case prints one line: PASS, FAIL or SKIP, and the
result in words. The last line has the number of each.

  --build DIR     built tree with bin/ddlemu, bin/ddlemu-rank and lib/libgoemu.so
                  (default: $BUILD, else ../../build)
  --python PATH   Python that has PyTorch (default: $PYTHON, else python3)
  --only PATTERN  only cases whose name matches this shell pattern; a name or 'groups-*'
  --timeout SEC   limit of one case (default 120)
  --keep DIR      keep all logs in DIR, which must be new or empty
  --require       a case fails, and is not skipped, if the machine has no GPU, PyTorch
                  or NCCL
  --backend NAME  nccl (default), or gloo to test the scripts on CPUs
  --help

Exit status: 0 if no case failed, 1 if a case failed, 2 for wrong flags, 130 if interrupted.
END
}

build=${BUILD:-$here/../../build}
python=${PYTHON:-python3}
only='*'
case_limit=120
script_end=$((SECONDS + 525)) # the time limit of all cases together is 9 minutes
keep=""
require=no
backend=nccl

usage_error() {
	echo "run.sh: $1: see run.sh --help" >&2
	exit 2
}

while (($#)); do
	case $1 in
	--build | --python | --only | --timeout | --keep | --backend)
		(($# > 1)) || usage_error "$1 needs a value"
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
	*) usage_error "$1 is not a flag" ;;
	esac
done
[[ $case_limit =~ ^[1-9][0-9]*$ ]] || usage_error "--timeout $case_limit: give whole seconds above 0"
[[ -d $build ]] && build=$(cd "$build" && pwd) # absolute, for LD_LIBRARY_PATH
[[ $backend == nccl || $backend == gloo ]] || usage_error "--backend $backend: give nccl or gloo"

# --- the cases

# The files that the other cases need exist and run on this machine (glibc).
case_tree() {
	local file version
	for file in bin/ddlemu bin/ddlemu-rank lib/libgoemu.so; do
		[[ -f $build/$file ]] && continue
		result="$file is not in $build: run \`make build\` on a machine with Go and copy build/ here, or give --build"
		return "$FAIL"
	done
	limited "$dir/version.log" "$build/bin/ddlemu" --version || return "$FAIL"
	version=$(<"$dir/version.log")
	limited "$dir/load.log" "$python" -c 'import ctypes, sys; ctypes.CDLL(sys.argv[1]).ncclNetPlugin_v8' "$build/lib/libgoemu.so" || return "$FAIL"
	result="$version, libgoemu.so loads"
}

case_collectives() { # bare|run RANKS
	can_share "$2" || return
	emulated "$1" "$2" "$2" collectives.py || return "$FAIL"
	check_transports "$2" --only-net || return "$FAIL"
	check_verdict "$1" "$2"
}

case_graph() {
	needs_nccl || return
	can_share 2 || return
	emulated bare 2 2 graph.py || return "$FAIL"
	check_transports 2 --only-net || return "$FAIL"
	check_verdict bare
}

# Compares the losses of an emulated run with those of a run without the plugin.
case_ddp() {
	local hosts=()
	can_share 2 || return
	mkdir "$dir/emulated" "$dir/reference"
	emulated bare 2 2 train.py --out "$dir/emulated" || return "$FAIL"
	check_transports 2 --only-net || return "$FAIL"
	check_verdict bare || return "$FAIL"
	if [[ $backend == nccl ]]; then
		((has[gpus] < 2)) && hosts=(--separate-hosts)
		nccl_env 2
		log_env "$dir/reference"
		environment+=(NCCL_NET_PLUGIN=none)
	fi
	torchrun_of 2 train.py --out "$dir/reference" "${hosts[@]}"
	if ! limited "$dir/reference.log" env "${environment[@]}" "${command[@]}"; then
		result="without the plugin: $result"
		return "$FAIL"
	fi
	if grep -qs 'NET/goemu' "$dir"/reference/nccl.*.log; then
		result="the run without the plugin used it"
		return "$FAIL"
	fi
	check losses.py --ranks 2 "$dir/emulated" "$dir/reference"
}

case_reinit() {
	can_share 2 || return
	emulated bare 2 2 reinit.py || return "$FAIL"
	check_transports 2 --only-net --comms 3 || return "$FAIL"
	check_verdict bare
}

# Four ranks on two nodes. No group has two ranks of one node, so NCCL accepts ranks that
# share a GPU.
case_groups_across() {
	can_share 4 || return
	emulated bare 2 4 groups.py --kind across || return "$FAIL"
	check_transports 4 --only-net || return "$FAIL"
	check_verdict bare
}

case_groups_within() {
	if [[ $backend == nccl ]] && ((has[gpus] < 2)); then
		result="a node has 2 ranks, NCCL needs a GPU for each of them, and there is 1"
		return "$SKIP"
	fi
	can_share 4 || return
	emulated bare 2 4 groups.py --kind within || return "$FAIL"
	check_transports 4 --no-net || return "$FAIL"
	check_verdict bare
}

case_nodes_2x2() {
	needs_nccl || return
	if ((has[gpus] < 4)); then
		result="needs 4 GPUs, there are ${has[gpus]}"
		return "$SKIP"
	fi
	if [[ ${has[peers]} != yes ]]; then
		result="these GPUs cannot access each other's memory, so there is no P2P within a node"
		return "$SKIP"
	fi
	emulated bare 2 4 collectives.py || return "$FAIL"
	check_transports 4 --ranks-per-node 2 --direct || return "$FAIL"
	check_verdict bare
}

case_bench() {
	local path
	needs_nccl || return
	can_share 2 || return
	if [[ -z ${has[nccl_lib]} ]]; then
		result="this PyTorch has NCCL linked in: there is no libnccl.so.2 for the bench"
		return "$SKIP"
	fi
	path=$(dirname "${has[nccl_lib]}")
	[[ -n ${has[cudart_lib]} ]] && path+=:$(dirname "${has[cudart_lib]}")
	nccl_env 2
	# Without log_env, because the bench reads NCCL's log.
	limited "$dir/bench.log" env "${environment[@]}" \
		"LD_LIBRARY_PATH=$path${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" \
		"$python" "$here/output.py" "$dir/bench.json" \
		"$build/bin/ddlemu" bench allreduce --ranks 2 --profile eth10 --nccl "${has[nccl_lib]}" -b 1M -e 4M -f 4 -n 3 -w 1 --json || return "$FAIL"
	check benchjson.py --ranks 2 --gpus "${has[gpus]}" --mps "${has[mps]}" "$dir/bench.json"
}

# wait_for waits until the loop has finished ITERATIONS iterations.
wait_for() { # ITERATIONS
	while (($(wc -l <"$dir/times") < $1)); do
		if ! kill -0 "${guards[-1]}" 2>/dev/null || (($(remaining) <= 1)); then
			finish "$dir/job.log"
			result="the loop did not reach iteration $1: ${result:-it ended}"
			return "$FAIL"
		fi
		sleep 0.05
	done
}

iterations() { wc -l <"$dir/times"; }

shape() { # BANDWIDTH OUTPUT
	timeout 20 "$build/bin/ddlemu" shape --bw "$1" --json >"$2" 2>"$dir/shape.log" && return
	result="ddlemu shape --bw $1: $(tail -n 1 "$dir/shape.log")"
	return "$FAIL"
}

case_shape() {
	local before after
	needs_nccl || return
	can_share 2 || return
	fabric_up 2 || return "$FAIL"
	: >"$dir/times"
	bare_command 2 loop.py --bytes 4194304 --times "$dir/times" --stop "$dir/stop" --limit "$(($(remaining) - 15))"
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
	check_ranks 2 || return "$FAIL"
	check_transports 2 --only-net || return "$FAIL"
	check slowdown.py --before "$before" --after "$after" --bytes 4194304 --slow "$dir/slow.json" "$dir/times" || return "$FAIL"
	check_verdict bare
}

# --- the run

# skip_all makes all cases skip, or fail with --require.
skip_all() { # REASON
	cannot_run=$1 cannot_run_status=$SKIP
	[[ $require == yes ]] && cannot_run_status=$FAIL
}

# run_case runs one case in its folder and reports the result.
run_case() { # NAME FUNCTION ARG...
	local name=$1 status=0 text
	shift
	# shellcheck disable=SC2053 # it is a pattern
	[[ $name == $only ]] || return 0
	if [[ -n $cannot_run ]]; then
		report "$cannot_run_status" "$name" "$cannot_run"
		return
	fi
	if ((script_end - SECONDS < 10)); then
		report "$FAIL" "$name" "the time limit of the script is reached"
		return
	fi
	dir=$work/$name result="" case_end=$((SECONDS + case_limit))
	((case_end > script_end)) && case_end=$script_end
	mkdir -p "$dir"
	local start=$SECONDS
	"$@" || status=$?
	stop_all
	text=$result
	if ! remove_fabrics && ((status == PASS)); then
		status=$FAIL text=$result
	fi
	report "$status" "$name" "$text ($((SECONDS - start)) s)"
	((status == PASS || status == SKIP)) || tail_of "$dir"
}

# clean_up removes all files and processes when the script ends.
clean_up() {
	stop_all
	if [[ -n ${DDLEMU_DIR:-} && -d $DDLEMU_DIR ]]; then
		[[ -x $build/bin/ddlemu ]] && timeout 20 "$build/bin/ddlemu" down --all >/dev/null 2>&1
		rm -rf "$DDLEMU_DIR"
	fi
	[[ -z $keep && -n ${work:-} ]] && rm -rf "$work"
}

# set_up creates the folders and cleans the environment.
set_up() {
	local name
	# Variables of the user's shell or of a batch system must not affect the jobs.
	for name in $(compgen -e | grep -E '^(NCCL|DDLEMU|TORCH_NCCL|TORCHELASTIC|SLURM|OMPI|PMIX?)_'); do
		unset "$name"
	done
	# Under sudo, ddlemu would create the fabric for the calling user, but the ranks run as root.
	unset SUDO_UID RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE GROUP_RANK GROUP_WORLD_SIZE MASTER_ADDR MASTER_PORT
	export OMP_NUM_THREADS=1 GLOO_SOCKET_IFNAME=lo PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
	trap clean_up EXIT
	trap 'exit 130' INT TERM HUP
	if [[ -n $keep ]]; then
		mkdir -p "$keep" && work=$(cd "$keep" && pwd) || exit 2
		[[ -z $(ls -A "$work") ]] || usage_error "--keep $keep: the folder is not empty"
	else
		work=$(mktemp -d "${TMPDIR:-/tmp}/ddlemu-gpu-XXXXXX") || exit 2
	fi
	DDLEMU_DIR=$(mktemp -d /dev/shm/ddlemu-gpu-XXXXXX) || exit 2 # of mode 0700
	export DDLEMU_DIR
}

# probe_machine sets has[], prints the main properties, and sets cannot_run if no case can run.
probe_machine() {
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
		cannot_run="probe this machine: $result" cannot_run_status=$FAIL
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

# select_plugin sets plugin to the value of NCCL_NET_PLUGIN for this NCCL.
select_plugin() {
	local major minor
	IFS=. read -r major minor _ <<<"${has[nccl]:-2.21.0}"
	plugin=libgoemu.so
	# NCCL before 2.21 always adds the prefix libnccl-net- and the suffix .so.
	((major == 2 && minor < 21)) && plugin=goemu
	return 0
}

cannot_run="" cannot_run_status=$SKIP plugin="" dir="" case_end=0
set_up
probe_machine
select_plugin
if [[ $backend == nccl ]]; then
	run_case tree case_tree
	# The other cases need it.
	((failed)) && [[ -z $cannot_run ]] && cannot_run="the built tree cannot be used" cannot_run_status=$SKIP
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
