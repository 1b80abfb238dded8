// SPDX-License-Identifier: Apache-2.0
//
// The switch of the fabric on Tofino, for transports whose senders are notified of drops: drop notification (FastLane),
// MLFQ by sender and in the switch. ../fabric.p4 is the same for v1model; docs/porting-tofino.md says what differs.
//
//  ingress  validity ─ traffic_class ─┬─ arp ─────── arp_responder ──────────┬─► queue
//                                     ├─ ipv4 ─► flow_hash ─ mlfq ─ route ───┤
//                                     └─ deflected ─ drop_notification ──────┘
//  egress   ecn_threshold ─ link;  on the deflection port: deflection, which sends refused packets back to ingress

#include <core.p4>
#include <tna.p4>

#include "include/deflection.p4"
#include "include/headers.p4"
#include "include/parser.p4"
#include "include/counters.p4"
#include "include/validity.p4"
#include "include/arp.p4"
#include "include/traffic_class.p4"
#include "include/flow_hash.p4"
#include "include/mlfq.p4"
#include "include/route.p4"
#include "include/drop_notification.p4"
#include "include/to_egress.p4"
#include "include/ecn_threshold.p4"
#include "include/deparser.p4"

control FabricIngress(inout headers_t hdr,
                      inout metadata_t meta,
                      in ingress_intrinsic_metadata_t ig_intr_md,
                      in ingress_intrinsic_metadata_from_parser_t ig_prsr_md,
                      inout ingress_intrinsic_metadata_for_deparser_t ig_dprsr_md,
                      inout ingress_intrinsic_metadata_for_tm_t ig_tm_md) {
    @brief("packets that came in")
    Counter<bit<64>, port_t>(PORTS, CounterType_t.PACKETS_AND_BYTES) port_in;
    Validity() validity;
    ArpResponder() arp;
    TrafficClass() traffic_class;
    FlowHash() flow_hash;
    Mlfq() mlfq;
    Path() path;
    Route() route;
    DropNotification() drop_notification;
    ToEgress() to_egress;
    DropAndCount() drop_and_count;

    apply {
        validity.apply(hdr, meta, ig_prsr_md);
        if (hdr.ipv4.isValid()) {
            traffic_class.apply(hdr, meta);
        }
        // ARP frames too: tables under a condition take stages of their own, others share those of later blocks.
        flow_hash.apply(hdr, meta);
        path.apply(hdr, meta);

        if (hdr.deflected.isValid()) {
            // The packet was routed on its first pass through ingress; the queue of that port had no room for it.
            meta.refused = 1;
            meta.refused_port = hdr.deflected.refused_port;
            meta.ingress_port = hdr.deflected.ingress_port;
        } else {
            meta.ingress_port = ig_intr_md.ingress_port;
            port_in.count(ig_intr_md.ingress_port);
        }
        if (hdr.tcp.isValid() && meta.drop_reason == DropReason.NONE) {
            drop_notification.apply(hdr, meta, ig_tm_md);
        }

        if (meta.drop_reason == DropReason.NONE && meta.notified == 0) {
            if (meta.refused == 1) {
                meta.drop_reason = DropReason.NOT_TRIMMABLE;
            } else if (hdr.arp.isValid()) {
                arp.apply(hdr, meta, ig_intr_md, ig_tm_md);
            } else {
                mlfq.apply(hdr, meta);
                route.apply(hdr, meta, ig_intr_md, ig_tm_md);
            }
        }

        to_egress.apply(hdr, meta, ig_tm_md);
        if (meta.multicast == 0 && meta.notifiable == 1) {
            ig_tm_md.deflect_on_drop = 1;
        }
        drop_and_count.apply(meta, ig_dprsr_md);
    }
}

control FabricEgress(inout egress_headers_t hdr,
                     inout egress_metadata_t meta,
                     in egress_intrinsic_metadata_t eg_intr_md,
                     in egress_intrinsic_metadata_from_parser_t eg_prsr_md,
                     inout egress_intrinsic_metadata_for_deparser_t eg_dprsr_md,
                     inout egress_intrinsic_metadata_for_output_port_t eg_oport_md) {
    Deflection() deflection;
    EcnThreshold() ecn_threshold;
    EgressCounters() counters;

    apply {
        deflection.apply(hdr, meta, eg_intr_md, eg_dprsr_md);
        if (hdr.routed.isValid() && eg_dprsr_md.mirror_type != MIRROR_DEFLECTED) {
            if (hdr.ipv4.isValid()) {
                ecn_threshold.apply(hdr, eg_intr_md);
            }
            counters.apply(hdr, eg_intr_md);
        }
    }
}

Pipeline(FabricIngressParser(),
         FabricIngress(),
         FabricIngressDeparser(),
         FabricEgressParser(),
         FabricEgress(),
         FabricEgressDeparser()) pipe;

Switch(pipe) main;
