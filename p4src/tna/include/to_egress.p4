// SPDX-License-Identifier: Apache-2.0
//
// State of a packet for the traffic manager and egress: its queue, and the header in front of it, as metadata
// does not go with it. Applied in ingress after the blocks that route.

#ifndef TNA_TO_EGRESS_P4
#define TNA_TO_EGRESS_P4

#include "headers.p4"

control ToEgress(inout headers_t hdr, in metadata_t meta, inout ingress_intrinsic_metadata_for_tm_t ig_tm_md) {
    apply {
        ig_tm_md.qid = (QueueId_t)meta.queue;
        hdr.routed.setValid();
        hdr.routed.kind = KIND_ROUTED;
        hdr.routed.refused = 0;
        hdr.routed.trimmed = meta.trimmed;
        hdr.routed.demoted = meta.demoted;
        hdr.routed.egress_port = ig_tm_md.ucast_egress_port;
        hdr.routed.ingress_port = meta.ingress_port;
        hdr.deflected.setInvalid();
    }
}

#endif
