// SPDX-License-Identifier: Apache-2.0
//
// IPv4 header checksum, options included: verified before ingress (the result is
// standard_metadata.checksum_error), computed anew after egress. The checksum of the Ebb header is end to end;
// mechanisms that set flags of the header update it incrementally (ebb_flags.p4).

#ifndef CHECKSUM_P4
#define CHECKSUM_P4

#include "headers.p4"

#define IPV4_CHECKSUM_INPUT { \
    hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.dscp, hdr.ipv4.ecn, hdr.ipv4.total_length, \
    hdr.ipv4.identification, hdr.ipv4.reserved, hdr.ipv4.dont_fragment, hdr.ipv4.more_fragments, \
    hdr.ipv4.fragment_offset, hdr.ipv4.ttl, hdr.ipv4.protocol, hdr.ipv4.src, hdr.ipv4.dst, hdr.ipv4.options }

#ifdef FABRIC_CODEL
#define MESSAGE_CHECKSUM_INPUT { \
    hdr.message.version, hdr.message.ihl, hdr.message.dscp, hdr.message.ecn, hdr.message.total_length, \
    hdr.message.identification, hdr.message.reserved, hdr.message.dont_fragment, hdr.message.more_fragments, \
    hdr.message.fragment_offset, hdr.message.ttl, hdr.message.protocol, hdr.message.src, hdr.message.dst }

// The quotation: the IPv4 header with its checksum, and the first 8 bytes of its payload (source_quench.p4).
#define ICMP_CHECKSUM_INPUT { \
    hdr.icmp.type, hdr.icmp.code, hdr.icmp.unused, \
    hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.dscp, hdr.ipv4.ecn, hdr.ipv4.total_length, \
    hdr.ipv4.identification, hdr.ipv4.reserved, hdr.ipv4.dont_fragment, hdr.ipv4.more_fragments, \
    hdr.ipv4.fragment_offset, hdr.ipv4.ttl, hdr.ipv4.protocol, hdr.ipv4.checksum, hdr.ipv4.src, hdr.ipv4.dst, \
    hdr.ipv4.options, hdr.tcp.src_port, hdr.tcp.dst_port, hdr.tcp.sequence }
#endif

control VerifyChecksums(inout headers_t hdr, inout metadata_t meta) {
    apply {
        verify_checksum(hdr.ipv4.isValid(), IPV4_CHECKSUM_INPUT, hdr.ipv4.checksum, HashAlgorithm.csum16);
    }
}

control UpdateChecksums(inout headers_t hdr, inout metadata_t meta) {
    apply {
        update_checksum(hdr.ipv4.isValid(), IPV4_CHECKSUM_INPUT, hdr.ipv4.checksum, HashAlgorithm.csum16);
#ifdef FABRIC_CODEL
        update_checksum(hdr.message.isValid(), MESSAGE_CHECKSUM_INPUT, hdr.message.checksum, HashAlgorithm.csum16);
        update_checksum(hdr.icmp.isValid(), ICMP_CHECKSUM_INPUT, hdr.icmp.checksum, HashAlgorithm.csum16);
#endif
    }
}

#endif
