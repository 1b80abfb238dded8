// SPDX-License-Identifier: Apache-2.0
//
// Step marking (DCTCP, SIGCOMM 2010, section 3.1): CE if the queue this packet joined was deeper than K when it
// arrived. ECT only; no averaging, no probability. Applied in egress, where v1model shows the depth. Its unit is
// the target's: packets on BMv2, packets or bytes on ebb-switch (`depth_unit`).

#ifndef ECN_THRESHOLD_P4
#define ECN_THRESHOLD_P4

#include "headers.p4"

control EcnThreshold(inout headers_t hdr, in standard_metadata_t standard_metadata) {

    @brief("packets marked CE for the depth of their queue")
    counter(PORTS, CounterType.packets_and_bytes) step_marked;

    bool congested = false;

    action set_ecn_threshold(bit<19> depth) {
        congested = standard_metadata.enq_qdepth > depth;
    }

    @brief("step marking on enq_qdepth above depth, in the unit of the target")
    table ecn_threshold {
        key = {
            standard_metadata.egress_port : exact @name("egress_port");   // 9 bits
        }
        actions = {
            set_ecn_threshold;
            @defaultonly NoAction;
        }
        const default_action = NoAction();
        size = 512;
    }

    apply {
        ecn_threshold.apply();
        if (congested && hdr.ipv4.isValid() && (hdr.ipv4.ecn == ECN_ECT0 || hdr.ipv4.ecn == ECN_ECT1)) {
            hdr.ipv4.ecn = ECN_CE;
            step_marked.count((bit<32>)standard_metadata.egress_port);
        }
    }
}

#endif
