// SPDX-License-Identifier: Apache-2.0
//
// Drain bytes of the queues of all ports (DeTail; Zats, "Achieving Consistent Latencies in Datacenter Networks",
// UC Berkeley 2014, section 5.2.2): bytes in a queue and in those of higher priority at the same port, which leave
// before a packet that joins the queue now. adaptive_routing.p4 reads them. They are written by:
//
//   the target    its traffic manager, `[[export]]` with register = "queue_drain" (ebb-switch)
//   the program   where `queue_accounting` has an entry for the port (stock BMv2):
//                 ingress: drain[0 .. queue] += packet   (DrainAccounting, last in ingress)
//                 egress:  drain[0 .. queue] -= packet   (DrainRelease)
//
// The program counts the unicast packets of adaptive classes only. A packet lost between ingress and egress stays
// counted, so the queues of the target have to be long enough to lose none.

#ifndef QUEUE_STATE_P4
#define QUEUE_STATE_P4

#include "headers.p4"

// By output port and queue, port * 8 + queue: bytes.
register<bit<32>>(PORTS * QUEUES) queue_drain;

// Adds to the drain bytes of a queue of a port, if the packet is in that queue or in one above it. Macros of this file
// and of adaptive_routing.p4 are not actions, because each call of an action makes variables of its own, and
// every packet pays for those.
#define ADD(port, queue, bytes) \
    queue_drain.read(drain, (bit<32>)(port ++ queue)); \
    drain = drain + (queue <= standard_metadata.priority ? bytes : 0); \
    queue_drain.write((bit<32>)(port ++ queue), drain);

control DrainAccounting(inout metadata_t meta, in standard_metadata_t standard_metadata) {

    // One action, because BMv2 locks registers per action, and its egress threads run beside ingress.
    action account_queue() {
        bit<32> drain;
        meta.accounted = 1;
        ADD(standard_metadata.egress_spec, 3w0, meta.frame_bytes)
        ADD(standard_metadata.egress_spec, 3w1, meta.frame_bytes)
        ADD(standard_metadata.egress_spec, 3w2, meta.frame_bytes)
        ADD(standard_metadata.egress_spec, 3w3, meta.frame_bytes)
        ADD(standard_metadata.egress_spec, 3w4, meta.frame_bytes)
        ADD(standard_metadata.egress_spec, 3w5, meta.frame_bytes)
        ADD(standard_metadata.egress_spec, 3w6, meta.frame_bytes)
        ADD(standard_metadata.egress_spec, 3w7, meta.frame_bytes)
    }

    @brief("ports whose queues the program counts itself (stock BMv2); no entry: the target writes queue_drain")
    table queue_accounting {
        key = {
            standard_metadata.egress_spec : exact @name("egress_port");   // 9 bits
        }
        actions = {
            account_queue;
            @defaultonly NoAction;
        }
        const default_action = NoAction();
        size = 512;
    }

    apply {
        if (meta.drop_reason == DropReason.NONE && standard_metadata.mcast_grp == 0) {
            queue_accounting.apply();
        }
    }
}

control DrainRelease(in metadata_t meta, in standard_metadata_t standard_metadata) {

    action release() {
        bit<32> drain;
        ADD(standard_metadata.egress_port, 3w0, -meta.frame_bytes)
        ADD(standard_metadata.egress_port, 3w1, -meta.frame_bytes)
        ADD(standard_metadata.egress_port, 3w2, -meta.frame_bytes)
        ADD(standard_metadata.egress_port, 3w3, -meta.frame_bytes)
        ADD(standard_metadata.egress_port, 3w4, -meta.frame_bytes)
        ADD(standard_metadata.egress_port, 3w5, -meta.frame_bytes)
        ADD(standard_metadata.egress_port, 3w6, -meta.frame_bytes)
        ADD(standard_metadata.egress_port, 3w7, -meta.frame_bytes)
    }

    apply {
        if (meta.accounted == 1) {
            release();
        }
    }
}

#undef ADD

#endif
