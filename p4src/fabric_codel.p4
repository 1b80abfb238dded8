// SPDX-License-Identifier: Apache-2.0
//
// The switch of the fabric with the queue management of CoDel, by which it drops, marks, or has senders asked to send
// less (Source Quench). A program of its own, because both cost every packet something: headers that few packets have,
// two more checksums, the state of a queue.
//
//  egress   replica pruning ─ occupancy release ─ drain release ─ codel ─ source_quench ─ ecn_threshold ─ phantom_queue

#define FABRIC_CODEL
#include "fabric.p4"
