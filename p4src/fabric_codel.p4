// SPDX-License-Identifier: Apache-2.0
//
// fabric.p4 with CoDel, which drops or marks packets of queues that are slow for too long, or asks senders to send less
// (Source Quench). A program of its own, because both cost every packet something: headers that few packets have,
// two more checksums, the state of a queue.
//
//  egress   occupancy release ─ drain release ─ replica pruning ─ codel ─ source_quench ─ ecn_threshold ─ phantom_queue

#define FABRIC_CODEL
#include "fabric.p4"
