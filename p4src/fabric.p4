// SPDX-License-Identifier: Apache-2.0
//
// The switch of the fabric: a composition of the mechanisms in include/, one file each. Thresholds and rates
// are table entries; docs/architecture.md lists the tables, docs/*.md the mechanisms.
//
//  ingress  validity ─ traffic_class ─┬─ arp ─────── arp_responder ───────────────────────────┬─► queue
//                                     ├─ ipv4 ─► flow_hash ─ mlfq ─ route ─ adaptive_routing ─┤
//                                     │       ▲ returned                              refused │ occupancy
//                                     └─ deflected ─ return_to_sender ─► drop_notification ─► trimming ─► trim queue
//  egress   occupancy release ─ drain release ─ replica pruning ─ ecn_threshold ─ phantom_queue ─ link
//
// Each of these programs has all of the one before, and mechanisms that cost every packet something: fabric_codel.p4
// (CoDel, Source Quench), fabric_tenants.p4 (void frames, policing), fabric_full.p4 (volume counters).

#include <core.p4>
#include <v1model.p4>

#include "include/headers.p4"
#include "include/parser.p4"
#include "include/checksum.p4"
#include "include/counters.p4"
#include "include/validity.p4"
#include "include/arp.p4"
#include "include/traffic_class.p4"
#include "include/flow_hash.p4"
#include "include/mlfq.p4"
#include "include/route.p4"
#include "include/queue_state.p4"
#include "include/adaptive_routing.p4"
#include "include/occupancy.p4"
#include "include/return_to_sender.p4"
#include "include/drop_notification.p4"
#include "include/trimming.p4"
#include "include/multicast.p4"
#include "include/ecn_threshold.p4"
#include "include/phantom_queue.p4"
#ifdef FABRIC_CODEL
#include "include/codel.p4"
#include "include/source_quench.p4"
#endif
#ifdef FABRIC_VOLUME
#include "include/volume_counters.p4"
#endif
#ifdef FABRIC_TENANTS
#include "include/void_frames.p4"
#include "include/policing.p4"
#endif
#include "include/deparser.p4"

control FabricIngress(inout headers_t hdr,
                      inout metadata_t meta,
                      inout standard_metadata_t standard_metadata) {
#ifdef FABRIC_TENANTS
    VoidFrames() void_frames;
    Policing() policing;
#endif
    Validity() validity;
    ArpResponder() arp;
    TrafficClass() traffic_class;
    FlowHash() flow_hash;
    Mlfq() mlfq;
    Route() route;
    AdaptiveRouting() adaptive_routing;
    DrainAccounting() drain_accounting;
    OccupancyAdmission() occupancy;
    ReturnToSender() return_to_sender;
    DropNotification() drop_notification;
    Trimming() trimming;
    DropAndCount() drop_and_count;

    apply {
        meta.frame_bytes = standard_metadata.packet_length;
#ifdef FABRIC_TENANTS
        void_frames.apply(hdr, meta, standard_metadata);
        if (meta.drop_reason == DropReason.NONE) {
            validity.apply(hdr, meta, standard_metadata);
        }
#else
        validity.apply(hdr, meta, standard_metadata);
#endif
        if (hdr.ipv4.isValid()) {
            traffic_class.apply(hdr, meta, standard_metadata);
        }

        if (standard_metadata.instance_type == INSTANCE_DEFLECTED) {
            // The packet was routed on its first pass through ingress; the queue of that port had no room for it.
            meta.refused = 1;
            meta.refused_port = standard_metadata.egress_port;
            if (meta.drop_reason == DropReason.NONE && hdr.ebb.isValid()) {
                return_to_sender.apply(hdr, meta, standard_metadata);
            }
        } else {
            port_in.count((bit<32>)standard_metadata.ingress_port);
#ifdef FABRIC_TENANTS
            if (meta.drop_reason == DropReason.NONE) {
                policing.apply(hdr, meta, standard_metadata);
            }
#endif
        }

        if (meta.refused == 0) {
            if (meta.drop_reason == DropReason.NONE) {
                if (hdr.arp.isValid()) {
                    arp.apply(hdr, meta, standard_metadata);
                } else {
                    flow_hash.apply(hdr, meta);
                    mlfq.apply(hdr, meta, standard_metadata);
                    route.apply(hdr, meta, standard_metadata);
                    if (meta.spray == SPRAY_ADAPTIVE) {
                        adaptive_routing.apply(hdr, meta, standard_metadata);
                    }
                }
            }
            if (meta.drop_reason == DropReason.NONE) {
                occupancy.apply(meta, standard_metadata);
            }
        }

        if (meta.refused == 1 && meta.drop_reason == DropReason.NONE) {
            if (hdr.tcp.isValid()) {
                drop_notification.apply(hdr, meta, standard_metadata);
            }
            if (meta.refused == 1) {
                trimming.apply(hdr, meta, standard_metadata);
            }
        }
        if (meta.spray == SPRAY_ADAPTIVE) {
            drain_accounting.apply(meta, standard_metadata);
        }
        drop_and_count.apply(meta, standard_metadata);
    }
}

control FabricEgress(inout headers_t hdr,
                     inout metadata_t meta,
                     inout standard_metadata_t standard_metadata) {
    ReplicaPruning() replica_pruning;
    OccupancyRelease() occupancy;
    DrainRelease() drain_release;
    EcnThreshold() ecn_threshold;
    PhantomQueue() phantom_queue;
#ifdef FABRIC_CODEL
    Codel() codel;
    SourceQuench() source_quench;
#endif
    EgressCounters() counters;
#ifdef FABRIC_VOLUME
    VolumeCounters() volume_counters;
#endif
    DropAndCount() drop_and_count;

    apply {
        occupancy.apply(meta, standard_metadata);
        drain_release.apply(meta, standard_metadata);
        replica_pruning.apply(hdr, meta, standard_metadata);
#ifdef FABRIC_CODEL
        if (meta.drop_reason == DropReason.NONE) {
            codel.apply(hdr, meta, standard_metadata);
            source_quench.apply(hdr, meta, standard_metadata);
        }
#endif
        if (meta.drop_reason == DropReason.NONE) {
            ecn_threshold.apply(hdr, standard_metadata);
            phantom_queue.apply(hdr, meta, standard_metadata);
            counters.apply(meta, standard_metadata);
#ifdef FABRIC_VOLUME
            volume_counters.apply(meta, standard_metadata);
#endif
        }
        drop_and_count.apply(meta, standard_metadata);
    }
}

V1Switch(FabricParser(),
         VerifyChecksums(),
         FabricIngress(),
         FabricEgress(),
         UpdateChecksums(),
         FabricDeparser()) main;
