# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# shellcheck disable=SC2154 # what run.sh sets
#
# What run.sh's cases share: results, limits, the fabric, starting ranks. A case is a
# function that says in $seen what it saw and returns PASS, FAIL or SKIP. It uses what
# run.sh has set: here, python, build, backend, work, and what the machine has in has[].

PASS=0
FAIL=1
SKIP=2

passed=0
failed=0
skipped=0
seen=""
declare -A has
guards=()      # processes of guard.py that run in the background
torchrun=()    # the launcher
command=()     # made by torchrun_of and bare_command
environment=() # made by nccl_env

# report counts a result and prints its line.
report() { # STATUS NAME TEXT
	case $1 in
	"$PASS") passed=$((passed + 1)) && printf 'PASS %s: %s\n' "$2" "$3" ;;
	"$SKIP") skipped=$((skipped + 1)) && printf 'SKIP %s: %s\n' "$2" "$3" ;;
	*) failed=$((failed + 1)) && printf 'FAIL %s: %s\n' "$2" "$3" ;;
	esac
}

# tail_of prints the end of each log of a case that failed.
tail_of() { # FOLDER
	local log
	for log in "$1"/*.log; do
		[[ -s $log && $log != */nccl.*.log ]] || continue
		printf '  %s:\n' "${log##*/}"
		# Without torchrun's own account of the failure, which comes last and is long.
		sed '/failed (exitcode/,$d' "$log" | tail -n 15 | cut -c1-300 | sed 's/^/    /'
	done
}

# left is the seconds that the running case still has, at least 1.
left() {
	local seconds=$((case_end - SECONDS))
	echo $((seconds > 1 ? seconds : 1))
}

# limited runs a command within the case's time, and leaves none of its processes.
limited() { # LOG COMMAND...
	local log=$1
	shift
	start_limited "$log" "$@"
	finish "$log"
}

# start_limited is limited in the background; finish waits for it.
start_limited() { # LOG COMMAND...
	local log=$1
	shift
	"$python" "$here/guard.py" --timeout "$(left)" -- "$@" >"$log" 2>&1 &
	guards+=($!)
}

# finish waits for the command started last. On failure $seen says how it ended.
finish() { # LOG
	local pid=${guards[-1]} status=0 why
	wait "$pid" || status=$?
	unset 'guards[-1]'
	((status)) || return 0
	# The first line that tells: what ddlemu only warns of or announces does not.
	why=$(grep -a -v -e '^ddlemu: warning' -e '^ddlemu: fabric' "$1" | grep -a -m1 -e 'WRONG' -e 'Error: ' -e '^ddlemu: ' | cut -c1-300)
	((status == 124)) && why="time ran out${why:+; $why}"
	seen="exit status $status${why:+: $why}"
	return "$status"
}

# stop_all ends what still runs in the background.
stop_all() {
	local pid
	for pid in "${guards[@]}"; do
		kill -TERM "$pid" 2>/dev/null && wait "$pid"
	done
	guards=()
}

# check runs one of the checks beside this file: its line goes to $seen.
check() { # SCRIPT ARG...
	local script=$1 text status=0
	shift
	text=$("$python" "$here/$script" "$@" 2>&1) || status=$?
	if ((status)); then
		seen="$text${seen:+ (before that: $seen)}"
	else
		seen+="${seen:+; }$text"
	fi
	return "$status"
}

free_port() {
	"$python" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}

# --- the fabric

fabric_up() { # NODES [FLAG...]
	local nodes=$1
	shift
	[[ $backend == nccl ]] || return 0
	limited "$dir/up.log" "$build/bin/ddlemu" up --profile eth10 --nodes "$nodes" --name gpu-test "$@" && return
	seen="bring up the fabric: $seen"
	return "$FAIL"
}

# put_away takes down what a case left and says so: nothing should be left.
put_away() {
	local found
	[[ -x $build/bin/ddlemu ]] && timeout 20 "$build/bin/ddlemu" down --all >>"$dir/down.log" 2>&1
	found=$(ls -A "$DDLEMU_DIR")
	[[ -z $found ]] && return 0
	find "$DDLEMU_DIR" -mindepth 1 -delete
	seen="left behind in the folder of fabrics: $(tr '\n' ' ' <<<"$found")"
	return 1
}

# --- ranks

# torchrun_of is the launcher's command line for a job on this host, in $command.
torchrun_of() { # RANKS SCRIPT ARG...
	local ranks=$1 script=$2
	shift 2
	# By address, with a static meeting point: no name needs to be resolved.
	command=("${torchrun[@]}" --nnodes 1 --nproc-per-node "$ranks" --master-addr 127.0.0.1 --master-port "$(free_port)"
		"$here/$script" --backend "$backend" --port "$(free_port)" "$@")
}

# nccl_env is what NCCL needs on this machine, in $environment.
nccl_env() { # RANKS
	# For NCCL's own bootstrap: all ranks are here, and a container may have no other interface.
	environment=("NCCL_SOCKET_IFNAME=lo")
	if (($1 > has[gpus])); then
		environment+=(
			# A connection pins about 9 MiB per channel and direction, and each step of each
			# channel costs a time slice of the shared GPU.
			"NCCL_MAX_CTAS=2"
			# NVLS wants a GPU for each rank.
			"NCCL_NVLS_ENABLE=0"
		)
	fi
}

# log_env makes NCCL log to a file per process, in $environment.
log_env() { # FOLDER
	environment+=("NCCL_DEBUG=INFO" "NCCL_DEBUG_SUBSYS=INIT,NET,GRAPH,P2P,SHM,NVLS,ENV" "NCCL_DEBUG_FILE=$1/nccl.%p.log")
}

# bare_command is the line that a user writes for the fabric that is up, in $command.
bare_command() { # RANKS SCRIPT ARG...
	torchrun_of "$@"
	nccl_env "$1"
	log_env "$dir"
	command=(env "${environment[@]}" "NCCL_NET_PLUGIN=$plugin" "LD_LIBRARY_PATH=$build/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" "${command[@]}")
}

# emulated runs a job on emulated nodes: bare, which is `ddlemu up` and then torchrun
# with NCCL_NET_PLUGIN, or run, which is `ddlemu run -- torchrun`.
emulated() { # bare|run NODES RANKS SCRIPT ARG...
	local how=$1 nodes=$2
	shift 2
	if [[ $backend != nccl ]]; then
		torchrun_of "$@"
		limited "$dir/job.log" "${command[@]}" || return "$FAIL"
	elif [[ $how == bare ]]; then
		fabric_up "$nodes" || return "$FAIL"
		bare_command "$@"
		limited "$dir/job.log" "${command[@]}" || return "$FAIL"
	else
		torchrun_of "$@"
		nccl_env "$1"
		log_env "$dir"
		limited "$dir/job.log" env "${environment[@]}" "$build/bin/ddlemu" run --profile eth10 --nodes "$nodes" -- "${command[@]}" || return "$FAIL"
	fi
	all_right "$1"
}

# all_right says how many checks the ranks made; every rank must say so.
all_right() { # RANKS
	local ranks checks
	ranks=$(grep -c '^rank [0-9]*: [0-9]* checks right$' "$dir/job.log")
	checks=$(sed -n 's/^rank 0: \([0-9]*\) checks right$/\1/p' "$dir/job.log")
	if ((ranks != $1)) || ((${checks:-0} == 0)); then
		seen="only $ranks of $1 ranks say that all was right"
		return "$FAIL"
	fi
	seen+="${seen:+; }$checks checks right on each of $1 ranks"
	[[ $backend == nccl ]] || seen+=" (backend $backend: values only)"
}

# ways counts which way NCCL's connections went, and checks it.
ways() { # RANKS FLAG...
	local ranks=$1
	shift
	[[ $backend == nccl ]] || return 0
	check nccllog.py --world "$ranks" "$@" "$dir"
}

# judged checks ddlemu's verdict on the last job. With RANKS it must tell that so many
# ranks share a GPU where they do; one kind of case is enough to show whether it does.
judged() { # bare|run [RANKS]
	local flags=(--mps "${has[mps]:-no}")
	[[ $backend == nccl ]] || return 0
	(($# > 1)) && flags+=(--ranks "$2" --gpus "${has[gpus]}")
	if [[ $1 == run ]]; then
		check verdict.py --format text "${flags[@]}" "$dir/job.log"
		return
	fi
	limited "$dir/verdict.log" "$build/bin/ddlemu" status --last --json || return "$FAIL"
	check verdict.py --format json "${flags[@]}" "$dir/verdict.log"
}

# --- what a case needs

# needs_nccl, can_share and the like return SKIP with the reason in $seen.
needs_nccl() {
	[[ $backend == nccl ]] && return
	seen="needs NCCL, not $backend"
	return "$SKIP"
}

can_share() { # RANKS
	if [[ $backend == nccl && ${has[share]} != yes ]] && (($1 > has[gpus])); then
		seen="$1 ranks would share ${has[gpus]} GPU(s): ${has[share_why]}"
		return "$SKIP"
	fi
}
