/* SPDX-License-Identifier: Apache-2.0
 *
 * A model of the virtual clock's protocol (shaper/engine/clock/calls.h, docs/clock.md) for SPIN, which tries every order in
 * which the processes may run.
 *
 * Two nodes. On each, two actors that share memory: the executor of NCCL's kernels and NCCL's progress thread. They
 * play ROUNDS messages there and back:
 *
 *	executor    sees its turn, fills a slot (a hidden store: no call announces it), raises ACTS
 *	progress    sees the slot, posts the message
 *	clock       when all are idle: time jumps to the message's due time, raises ACTS of the receiver's node
 *	progress    of the other node sees the message, stores the tail (hidden), raises ACTS after its whole pass
 *	executor    sees the tail: its turn
 *
 * With DEATH there is a rank of another job that has nothing to do. Once, at any time when all are idle, it begins to run
 * the clock, and dies, before or after it has made a message due. Another process notices that, and the others go on. Then
 * the model leaves out that a scan takes time.
 *
 * Checked: time moves only when nobody can act (assertions), and never do all sleep although something is left to do
 * (SPIN's check for invalid end states). Sleeps have no time limit here, so nothing depends on the 100 ms.
 *
 * Each macro removes one rule. The model must then fail: NO_SEEN, RAISE_FIRST, NO_RECHECK,
 * NO_COMPARE, NO_LOOK_AFTER_RUN, NO_LOOK_AFTER_FAILURE, YIELD_IS_IDLE; with DEATH: RELEASE_FIRST, NO_RAISE_AFTER_DEATH.
 */

#ifdef DEATH
#define ROUNDS 1 /* else there are too many states */
#else
#define ROUNDS 2
#endif
#define WORKS 255

/* What the actors of a node share. */
byte events[2];
bool turn[2];	/* the executor has something to send */
bool slot[2];	/* filled for the progress thread */
bool due[2];	/* a message of the other node is visible */
byte sent;	/* messages posted and not yet due: 1 + the receiver's node, or 0 */
byte hops;	/* messages that have arrived */

/* state[a]: the value of events with which actor a is idle, or WORKS. Actor a is on node a / 2; even: executor. */
byte state[4] = WORKS;
bool token;
byte time;
bool finished;

#define NODE(a) ((a) / 2)
#define IDLE(a) (state[a] == events[NODE(a)])
#define ALL_IDLE (IDLE(0) && IDLE(1) && IDLE(2) && IDLE(3))
#ifdef NO_COMPARE
#define SAME(a) true
#else
#define SAME(a) (state[a] == first[a])
#endif
/* Something that an actor would react to. */
#define CAN_ACT (turn[0] || turn[1] || slot[0] || slot[1] || due[0] || due[1])

/* The scan looks at one actor after another, as the program does. So one that it has seen idle may work before it has
 * seen the last one. Only if a second scan finds the same states, all were idle at the moment between the two. `first`
 * has the states of the first scan. */
#ifdef DEATH
inline scan(result) { result = ALL_IDLE }
inline scan_again(result) { result = ALL_IDLE }
#else
inline scan(result)
{
	result = true;
	i = 0;
	do
	:: i < 4 -> atomic { if :: IDLE(i) -> first[i] = state[i]; i++ :: else -> result = false; break fi }
	:: i == 4 -> break
	od
}

inline scan_again(result)
{
	i = 0;
	do
	:: result && i < 4 -> atomic { result = IDLE(i) && SAME(i); i++ }
	:: else -> break
	od
}
#endif

/* The clock: makes the next message due. */
inline advance()
{
	assert(!CAN_ACT);
	happened = false;
	if
	:: sent != 0 ->
		time++;
		hops++;
		d_step { n = sent - 1; sent = 0; due[n] = true };
		events[n]++;
		happened = true
	:: else -> skip
	fi
}

inline conduct()
{
	do
	:: true ->
		scan(idle);
		if
		:: !idle -> break
		:: else
		fi;
		/* Take the token, or leave it to whoever has it. */
		atomic { if :: token -> got = false :: else -> token = true; got = true fi };
		if
		:: !got -> break
		:: else
		fi;
#ifndef NO_RECHECK
		scan_again(idle);
#endif
		happened = false;
		if
		:: idle -> advance()
		:: else
		fi;
		token = false;
		if
		:: idle && !happened -> break
#ifdef NO_LOOK_AFTER_RUN
		:: idle && happened -> break
#endif
#ifdef NO_LOOK_AFTER_FAILURE
		:: !idle -> break
#endif
		:: else -> forget()
		fi
	od
}

/* What an actor remembers of its scans does not matter later: without it there are fewer states. */
inline forget()
{
	d_step { i = 0; n = 0; first[0] = 0; first[1] = 0; first[2] = 0; first[3] = 0; got = false; happened = false; idle = false }
}

/* Idle with the number that was read before the fruitless pass. */
inline sleep(a, seen)
{
	state[a] = seen;
	if
	:: events[NODE(a)] == seen ->
		conduct();
		forget();
		(events[NODE(a)] != seen || finished)
	:: else
	fi;
	state[a] = WORKS
}

proctype executor(byte a)
{
	byte seen, i, n, first[4];
	bool idle, got, happened, fruitful;
	do
	:: finished -> break
	:: else ->
#ifndef NO_SEEN
		seen = events[NODE(a)];
#endif
		fruitful = false;
		if
		:: turn[NODE(a)] ->
#ifdef RAISE_FIRST
			events[NODE(a)]++;
#endif
			turn[NODE(a)] = false;
			if
			:: hops == ROUNDS -> finished = true
			:: else -> slot[NODE(a)] = true
			fi;
#ifndef RAISE_FIRST
			events[NODE(a)]++;
#endif
			fruitful = true
		:: else
		fi;
#ifdef NO_SEEN
		seen = events[NODE(a)];
#endif
		if
		:: fruitful
		:: else -> sleep(a, seen)
		fi
	od
}

proctype progress(byte a)
{
	byte seen, i, n, first[4];
	bool idle, got, happened, fruitful;
	do
	:: finished -> break
	:: else ->
#ifndef NO_SEEN
		seen = events[NODE(a)];
#endif
		fruitful = false;
		/* The send side of the pass. */
		if
		:: slot[NODE(a)] ->
			slot[NODE(a)] = false;
			sent = 1 + (1 - NODE(a));
			fruitful = true
		:: else
		fi;
		/* The receive side: `tail`, which the executor polls, is stored in the middle of the pass. */
		if
		:: due[NODE(a)] ->
			due[NODE(a)] = false;
			turn[NODE(a)] = true;
			fruitful = true
		:: else
		fi;
#ifdef NO_SEEN
		seen = events[NODE(a)];
#endif
#ifdef YIELD_IS_IDLE
		/* Every pass ends with a yield, and the yield counts as idle, whatever the pass did. */
		sleep(a, seen)
#else
		if
		:: fruitful -> events[NODE(a)]++
		:: else -> sleep(a, seen)
		fi
#endif
	od
}

/* The rank that dies while it runs the clock, and what is done then. */
proctype death()
{
	byte n;
	if
	:: finished
	:: atomic { ALL_IDLE && !token && sent != 0 -> token = true };
		assert(!CAN_ACT);
		if
		:: skip
		:: d_step { n = sent - 1; time++; hops++; sent = 0; due[n] = true }
		fi;
		/* It is dead. Whose message it was is not known: all are told. */
#ifndef RELEASE_FIRST
		events[0]++;
		events[1]++;
#endif
		token = false;
#ifndef NO_RAISE_AFTER_DEATH
		events[0]++;
		events[1]++
#endif
	fi
}

init {
	atomic {
		turn[0] = true;
		run executor(0);
		run progress(1);
		run executor(2);
		run progress(3);
#ifdef DEATH
		run death()
#endif
	}
}
