// SPDX-License-Identifier: Apache-2.0
//
// The switch of the fabric on Tofino 2, for DeTail: packets take a path with a short queue, which the ghost thread
// reports; link-level flow control is part of the traffic manager. ../fabric.p4 is the same for v1model;
// docs/porting-tofino.md says what differs.
//
//  ingress  validity ─ traffic_class ─┬─ arp ─ arp_responder ─────────────────────────────────────┬─► queue
//                                     └─ ipv4 ─► flow_hash ─ route ─ adaptive_routing ────────────┘
//  egress   ecn_threshold ─ link                                                ▲
//  ghost    queue_state ────────────────────────────────────────────────────────┘

#include <core.p4>
#include <t2na.p4>

#include "include/headers.p4"
#include "include/parser.p4"
#include "include/counters.p4"
#include "include/validity.p4"
#include "include/arp.p4"
#include "include/traffic_class.p4"
#include "include/flow_hash.p4"
#include "include/route.p4"
#include "include/queue_state.p4"
#include "include/adaptive_routing.p4"
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
    Path() path;
    Route() route;
    AdaptiveRouting() adaptive_routing;
    ToEgress() to_egress;
    DropAndCount() drop_and_count;

    apply {
        port_in.count(ig_intr_md.ingress_port);
        validity.apply(hdr, meta, ig_prsr_md);
        if (hdr.ipv4.isValid()) {
            traffic_class.apply(hdr, meta);
            flow_hash.apply(hdr, meta);
            path.apply(hdr, meta);
        }
        if (meta.drop_reason == DropReason.NONE) {
            if (hdr.arp.isValid()) {
                arp.apply(hdr, meta, ig_intr_md, ig_tm_md);
            } else {
                route.apply(hdr, meta, ig_intr_md, ig_tm_md);
                if (meta.spray == SPRAY_ADAPTIVE) {
                    adaptive_routing.apply(hdr, meta, ig_tm_md);
                }
            }
        }
        to_egress.apply(hdr, meta, ig_tm_md);
        drop_and_count.apply(meta, ig_dprsr_md);
    }
}

control FabricEgress(inout egress_headers_t hdr,
                     inout egress_metadata_t meta,
                     in egress_intrinsic_metadata_t eg_intr_md,
                     in egress_intrinsic_metadata_from_parser_t eg_prsr_md,
                     inout egress_intrinsic_metadata_for_deparser_t eg_dprsr_md,
                     inout egress_intrinsic_metadata_for_output_port_t eg_oport_md) {
    EcnThreshold() ecn_threshold;
    EgressCounters() counters;

    apply {
        if (hdr.ipv4.isValid()) {
            ecn_threshold.apply(hdr, eg_intr_md);
        }
        counters.apply(hdr, eg_intr_md);
    }
}

Pipeline(FabricIngressParser(),
         FabricIngress(),
         FabricIngressDeparser(),
         FabricEgressParser(),
         FabricEgress(),
         FabricEgressDeparser(),
         QueueState()) pipe;

Switch(pipe) main;
