// SPDX-License-Identifier: Apache-2.0
//
// Step marking (DCTCP), as ../../include/ecn_threshold.p4: CE if the queue was deeper than K when the packet joined it.
// Applied in egress. The unit of the depth is the cell of the packet buffer: 80 bytes on Tofino, 176 on Tofino 2.

#ifndef TNA_ECN_THRESHOLD_P4
#define TNA_ECN_THRESHOLD_P4

#include "headers.p4"

control EcnThreshold(inout egress_headers_t hdr, in egress_intrinsic_metadata_t eg_intr_md) {

    @brief("packets marked CE for the depth of their queue")
    Counter<bit<64>, port_t>(PORTS, CounterType_t.PACKETS_AND_BYTES) step_marked;

    bit<32> threshold = 0xFFFFFFFF;
    bit<32> queued = 0;
    bit<32> excess = 0;                      // cells above the threshold: two numbers are only compared by difference

    action mark() {
        hdr.ipv4.ecn = ECN_CE;
        step_marked.count(eg_intr_md.egress_port);
    }

    // Each is an action of its own, as the compiler would otherwise substitute expressions for variables.
    action widen() {
        queued = (bit<32>)eg_intr_md.enq_qdepth;
    }

    action compare() {
        excess = queued |-| threshold;
    }

    action set_ecn_threshold(bit<32> depth) {
        threshold = depth;
    }

    @brief("step marking on enq_qdepth above depth, in the unit of the target")
    table ecn_threshold {
        key = {
            eg_intr_md.egress_port : exact @name("egress_port");     // 9 bits
        }
        actions = {
            set_ecn_threshold;
            @defaultonly NoAction;
        }
        const default_action = NoAction();
        size = 512;
    }

    apply {
        widen();
        ecn_threshold.apply();
        compare();
        if (excess != 0 && (hdr.ipv4.ecn == ECN_ECT0 || hdr.ipv4.ecn == ECN_ECT1)) {
            mark();
        }
    }
}

#endif
