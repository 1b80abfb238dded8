// SPDX-License-Identifier: Apache-2.0
//
// The way back to ingress of packets that a queue has refused, where return_to_sender and trimming decide, as on a
// v1model target with queues that deflect (INSTANCE_DEFLECTED). Only mirrored packets can be cut, and only to the
// length of their session.
//
//   ingress ─ routed ─► queue refuses (deflect_on_drop) ─► deflection port ─ egress: mirrored, itself dropped
//                 └──── occupancy.p4 refuses ─────────────►┘                    │ session TRIM_SESSION, cut
//   ingress ◄─ deflected ─ recirculation port ◄─────────────────────────────────┘
//
// A header that the trim queue refuses goes the same way again; return_to_sender.p4 may turn it round. A TCP packet may
// become a message to its sender (drop_notification.p4). Applied in egress to all packets.

#ifndef TNA_DEFLECTION_P4
#define TNA_DEFLECTION_P4

#include "headers.p4"

#define DEFLECTION

const MirrorType_t MIRROR_DEFLECTED = 1;
const MirrorId_t   TRIM_SESSION = 1;         // to the recirculation port, cut to the size of `trimming`

// Ports of each pipe (the upper two bits of a port number): the one that the traffic manager deflects to, and the
// one whose packets come back to ingress. They can be one.
const bit<7> DEFLECTION_PORT_OF_PIPE = 68;
#define RECIRCULATION_PORT 9w0x044 &&& 9w0x07F

control Deflection(in egress_headers_t hdr,
                   inout egress_metadata_t meta,
                   in egress_intrinsic_metadata_t eg_intr_md,
                   inout egress_intrinsic_metadata_for_deparser_t eg_dprsr_md) {

    action send_back() {
        meta.refused_port = hdr.routed.egress_port;
        meta.ingress_port = hdr.routed.ingress_port;
        meta.session = TRIM_SESSION;
        eg_dprsr_md.mirror_type = MIRROR_DEFLECTED;
        eg_dprsr_md.drop_ctl = 1;            // the packet, not its copy
    }

    apply {
        if (hdr.routed.isValid() && (eg_intr_md.deflection_flag == 1 || hdr.routed.refused == 1)) {
            send_back();
        }
    }
}

#endif
