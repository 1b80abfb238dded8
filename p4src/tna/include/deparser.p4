// SPDX-License-Identifier: Apache-2.0
//
// Puts the headers back in front of the payload, with a new checksum of the IPv4 header: in ingress too, because the
// parser verifies it again where the packet comes back from deflection.p4.

#ifndef TNA_DEPARSER_P4
#define TNA_DEPARSER_P4

#include "headers.p4"

#define IPV4_CHECKSUM_INPUT { \
    hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.dscp, hdr.ipv4.ecn, hdr.ipv4.total_length, \
    hdr.ipv4.identification, hdr.ipv4.reserved, hdr.ipv4.dont_fragment, hdr.ipv4.more_fragments, \
    hdr.ipv4.fragment_offset, hdr.ipv4.ttl, hdr.ipv4.protocol, hdr.ipv4.src, hdr.ipv4.dst }

control FabricIngressDeparser(packet_out packet,
                              inout headers_t hdr,
                              in metadata_t meta,
                              in ingress_intrinsic_metadata_for_deparser_t ig_dprsr_md) {
    Checksum() ipv4_checksum;

    apply {
        if (hdr.ipv4.isValid()) {
            hdr.ipv4.checksum = ipv4_checksum.update(IPV4_CHECKSUM_INPUT);
        }
        packet.emit(hdr.routed);
        packet.emit(hdr.ethernet);
        packet.emit(hdr.arp);
        packet.emit(hdr.ipv4);
        packet.emit(hdr.tcp);
        packet.emit(hdr.udp);
        packet.emit(hdr.ebb);
    }
}

control FabricEgressDeparser(packet_out packet,
                             inout egress_headers_t hdr,
                             in egress_metadata_t meta,
                             in egress_intrinsic_metadata_for_deparser_t eg_dprsr_md) {
    Checksum() ipv4_checksum;
#ifdef DEFLECTION
    Mirror(MIRROR_DEFLECTED) mirror;
#endif

    apply {
        if (hdr.ipv4.isValid()) {
            hdr.ipv4.checksum = ipv4_checksum.update(IPV4_CHECKSUM_INPUT);
        }
#ifdef DEFLECTION
        if (eg_dprsr_md.mirror_type == MIRROR_DEFLECTED) {
            mirror.emit<deflected_t>(meta.session, { meta.kind, 0, meta.refused_port, 0, meta.ingress_port });
        }
#endif
        packet.emit(hdr.deflected);
        packet.emit(hdr.ethernet);
        packet.emit(hdr.ipv4);
    }
}

#endif
