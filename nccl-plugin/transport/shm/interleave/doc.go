// SPDX-License-Identifier: Apache-2.0

// Package interleave checks the protocol of a connection (flow.h, conn.c) by trying
// every order in which its two processes can take their steps, with a crash of
// either at every step. It has only tests.
//
// A step is one access to the shared memory. Accesses are sequentially consistent
// here; that each count is stored with release and loaded with acquire, which makes
// it so for what they count, is for the thread sanitizer (make test-tsan).
//
// What is smaller than in C: 3 messages; a ring of 2 cells instead of bytes; one
// cell copied per call instead of 64 KiB; a table of 2 messages instead of 1024; 2
// requests instead of 32; messages are one segment; time passes at any step, by any
// amount. The link model is reduced to what it tells the protocol: rdma has a
// message leave when a receive is posted for it, tcp at once.
//
// What is looser than in C, so that it allows more: the model's answers are told one
// by one as they are found, and not all at once at the end (model_say); copy_out
// begins with what was posted, and not only with what has arrived or is due.
//
// Steps and the C that they stand for:
//
//	sender    sPost                    sender_isend: check, floor, take
//	          sTx, sPosted             *tx_of(f, i) = ...; store64(&f->posted, i + 1)
//	          sRoom, sCopy, sWritten   copy_in: load of consumed, memcpy, store of written
//	          sComplete                sender_test: sent_count, time of sent, copied_msgs
//	          sGone, sRecvd            sender_test: rx_closed, recvd, check
//	receiver  rPost, rRecvd            receiver_irecv: floor, take; store of recvd
//	          rPosted, rTx             copy_out: the loop's condition, read of tx
//	          rArrived                 copy_out: loads of arrived and written
//	          rCopy, rConsumed, rDue   copy_out: ordered_copy, store of consumed, due_count and due
//	          rDone                    receiver_test: store of rx_done
//	          rGone, rStill            receiver_test: dead and tx_closed; still_comes
//	both      aNeed, aLock, aUnlock    advance, step: anything, the lock
//	          aLearn, aInject, aSent   model_learn, model_inject with model_pass, model_settle
//	          aArrive, aNext           model_arrive; next and oldest_msg; model_say
//	          close                    ddlemu_conn_close
//	helper    aNeed ... aUnlock        catch_up, on another thread of the same process
//	outside   crash                    the process ends at any step, with the lock or not
//	          watch                    Endpoint.watch: ddlemu_conn_set_dead
//	          tick, down               the clock; a link that goes down for good
package interleave
