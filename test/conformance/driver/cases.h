// SPDX-License-Identifier: Apache-2.0
//
// The cases, by file. The table in main.c says for which versions of NCCL's net API each is.
#ifndef CONFORMANCE_CASES_H
#define CONFORMANCE_CASES_H

#include "traffic.h"

// connect.c
void case_connect(struct end *);
void case_accept_several(struct end *);
void case_handle(struct end *);
void case_wrong_arguments(struct end *);

// message.c
void case_sizes(struct end *);
void case_gibibyte(struct end *);
void case_receive_larger(struct end *);
void case_send_larger(struct end *);
void case_size_refused(struct end *);
void case_order(struct end *);
void case_nothing_early(struct end *);
void case_flush(struct end *);

// request.c
void case_outstanding(struct end *);
void case_requests_written(struct end *);
void case_test_without_sizes(struct end *);

// interleave.c
void case_interleave(struct end *);
void case_interleave_long(struct end *);

// close.c
void case_close_in_flight(struct end *);
void case_dereg_fences(struct end *);
void case_peer_closes(struct end *);
void case_descriptors(struct end *);

// life.c
void case_failed_init(struct end *);
void case_init_again(struct end *);
void case_reload(struct end *);
void case_two_communicators(struct end *);
void case_split(struct end *);
void case_bootstrap(struct end *);

// props.c
void case_vtable(struct end *);
void case_properties(struct end *);

// tuner.c
void case_tuner(struct end *);
void case_tuner_nodes(struct end *);
void case_tuner_subset(struct end *);
void case_tuner_ranks(struct end *);

#endif
