# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# shellcheck disable=SC2154 # what run.sh sets
#
# The common functions of run.sh's cases: results, time limits, the fabric, starting ranks.
# A case is a function that sets $result to its result in words and returns PASS, FAIL or
# SKIP. It uses variables of run.sh: here, python, build, backend, work, and has[], the
# properties of this machine.

PASS=0
FAIL=1
SKIP=2

passed=0
failed=0
skipped=0
result=""
declare -A has
guards=()      # pids of guard.py in the background
torchrun=()    # command of the launcher
command=()     # set by torchrun_of and bare_command
environment=() # set by nccl_env

# report counts a result and prints its line.
report() { # STATUS NAME TEXT
	case $1 in
	"$PASS") passed=$((passed + 1)) && printf 'PASS %s: %s\n' "$2" "$3" ;;
	"$SKIP") skipped=$((skipped + 1)) && printf 'SKIP %s: %s\n' "$2" "$3" ;;
	*) failed=$((failed + 1)) && printf 'FAIL %s: %s\n' "$2" "$3" ;;
	esac
}

# tail_of prints the last lines of each log of a failed case.
tail_of() { # FOLDER
	local log
	for log in "$1"/*.log; do
		[[ -s $log && $log != */nccl.*.log ]] || continue
		printf '  %s:\n' "${log##*/}"
		# Without torchrun's report of the failure, which is long.
		sed '/failed (exitcode/,$d' "$log" | tail -n 15 | cut -c1-300 | sed 's/^/    /'
	done
}

# remaining prints the seconds until the time limit of the current case, at least 1.
remaining() {
	local seconds=$((case_end - SECONDS))
	echo $((seconds > 1 ? seconds : 1))
}

# limited runs a command with the case's time limit and ends all of its processes.
limited() { # LOG COMMAND...
	local log=$1
	shift
	start_limited "$log" "$@"
	finish "$log"
}

# start_limited does the same in the background; finish waits for it.
start_limited() { # LOG COMMAND...
	local log=$1
	shift
	"$python" "$here/guard.py" --timeout "$(remaining)" -- "$@" >"$log" 2>&1 &
	guards+=($!)
}

# finish waits for the last command of start_limited. On failure $result has the reason.
finish() { # LOG
	local pid=${guards[-1]} status=0 why
	wait "$pid" || status=$?
	unset 'guards[-1]'
	((status)) || return 0
	# The first line that looks like an error.
	why=$(grep -a -v -e '^ddlemu: warning' -e '^ddlemu: fabric' "$1" | grep -a -m1 -e 'WRONG' -e 'Error: ' -e '^ddlemu: ' | cut -c1-300)
	((status == 124)) && why="time limit reached${why:+; $why}"
	result="exit status $status${why:+: $why}"
	return "$status"
}

# stop_all ends all commands in the background.
stop_all() {
	local pid
	for pid in "${guards[@]}"; do
		kill -TERM "$pid" 2>/dev/null && wait "$pid"
	done
	guards=()
}

# check runs a Python script of this folder and adds its output line to $result.
check() { # SCRIPT ARG...
	local script=$1 text status=0
	shift
	text=$("$python" "$here/$script" "$@" 2>&1) || status=$?
	if ((status)); then
		result="$text${result:+ (before that: $result)}"
	else
		result+="${result:+; }$text"
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
	result="bring up the fabric: $result"
	return "$FAIL"
}

# remove_fabrics takes down fabrics that a case has not taken down. Returns 1 if there were any.
remove_fabrics() {
	local found
	[[ -x $build/bin/ddlemu ]] && timeout 20 "$build/bin/ddlemu" down --all >>"$dir/down.log" 2>&1
	found=$(ls -A "$DDLEMU_DIR")
	[[ -z $found ]] && return 0
	find "$DDLEMU_DIR" -mindepth 1 -delete
	result="the case left files in the folder of fabrics: $(tr '\n' ' ' <<<"$found")"
	return 1
}

# --- ranks

# torchrun_of sets $command to the launcher's command line for a job on this host.
torchrun_of() { # RANKS SCRIPT ARG...
	local ranks=$1 script=$2
	shift 2
	# With an address, so that no name has to be resolved.
	command=("${torchrun[@]}" --nnodes 1 --nproc-per-node "$ranks" --master-addr 127.0.0.1 --master-port "$(free_port)"
		"$here/$script" --backend "$backend" --port "$(free_port)" "$@")
}

# nccl_env sets $environment to the variables that NCCL needs on this machine.
nccl_env() { # RANKS
	# For NCCL's bootstrap: all ranks are on this host, and a container may have no other interface.
	environment=("NCCL_SOCKET_IFNAME=lo")
	if (($1 > has[gpus])); then
		environment+=(
			# A connection pins about 9 MiB per channel and direction, and each step of a
			# channel needs a time slice of the shared GPU.
			"NCCL_MAX_CTAS=2"
			# NVLS needs a GPU for each rank.
			"NCCL_NVLS_ENABLE=0"
		)
	fi
}

# log_env adds variables to $environment that make NCCL log to a file per process.
log_env() { # FOLDER
	environment+=("NCCL_DEBUG=INFO" "NCCL_DEBUG_SUBSYS=INIT,NET,GRAPH,P2P,SHM,NVLS,ENV" "NCCL_DEBUG_FILE=$1/nccl.%p.log")
}

# bare_command sets $command to the command of a user for a fabric that is up.
bare_command() { # RANKS SCRIPT ARG...
	torchrun_of "$@"
	nccl_env "$1"
	log_env "$dir"
	command=(env "${environment[@]}" "NCCL_NET_PLUGIN=$plugin" "LD_LIBRARY_PATH=$build/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" "${command[@]}")
}

# emulated runs a job on emulated nodes. bare is `ddlemu up` and then torchrun with
# NCCL_NET_PLUGIN; run is `ddlemu run -- torchrun`.
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
	check_ranks "$1"
}

# check_ranks fails unless every rank reports its number of checks.
check_ranks() { # RANKS
	local ranks checks
	ranks=$(grep -c '^rank [0-9]*: [0-9]* checks right$' "$dir/job.log")
	checks=$(sed -n 's/^rank 0: \([0-9]*\) checks right$/\1/p' "$dir/job.log")
	if ((ranks != $1)) || ((${checks:-0} == 0)); then
		result="only $ranks of $1 ranks report that all checks passed"
		return "$FAIL"
	fi
	result+="${result:+; }$checks checks right on each of $1 ranks"
	[[ $backend == nccl ]] || result+=" (backend $backend: values only)"
}

# check_transports counts NCCL's connections by transport and checks them.
check_transports() { # RANKS FLAG...
	local ranks=$1
	shift
	[[ $backend == nccl ]] || return 0
	check nccllog.py --world "$ranks" "$@" "$dir"
}

# check_verdict checks ddlemu's verdict on the last job. With RANKS, a reason must say that
# ranks share a GPU if they do; only some cases check that.
check_verdict() { # bare|run [RANKS]
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

# --- requirements of a case

# needs_nccl and can_share return SKIP if the machine does not have what the case needs.
needs_nccl() {
	[[ $backend == nccl ]] && return
	result="needs NCCL, not $backend"
	return "$SKIP"
}

can_share() { # RANKS
	if [[ $backend == nccl && ${has[share]} != yes ]] && (($1 > has[gpus])); then
		result="$1 ranks would share ${has[gpus]} GPU(s): ${has[share_why]}"
		return "$SKIP"
	fi
}
