// SPDX-License-Identifier: Apache-2.0
//
// IPv4 header checksum, options included: verified before ingress (the result is
// standard_metadata.checksum_error), made again after egress. The checksum of the Ebb header is end to end
// and the mechanisms that set its flags touch it, incrementally (ebb_flags.p4).

#ifndef CHECKSUM_P4
#define CHECKSUM_P4

#include "headers.p4"

#define IPV4_CHECKSUM_INPUT { \
    hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.dscp, hdr.ipv4.ecn, hdr.ipv4.total_length, \
    hdr.ipv4.identification, hdr.ipv4.reserved, hdr.ipv4.dont_fragment, hdr.ipv4.more_fragments, \
    hdr.ipv4.fragment_offset, hdr.ipv4.ttl, hdr.ipv4.protocol, hdr.ipv4.src, hdr.ipv4.dst, hdr.ipv4.options }

control VerifyChecksums(inout headers_t hdr, inout metadata_t meta) {
    apply {
        verify_checksum(hdr.ipv4.isValid(), IPV4_CHECKSUM_INPUT, hdr.ipv4.checksum, HashAlgorithm.csum16);
    }
}

control UpdateChecksums(inout headers_t hdr, inout metadata_t meta) {
    apply {
        update_checksum(hdr.ipv4.isValid(), IPV4_CHECKSUM_INPUT, hdr.ipv4.checksum, HashAlgorithm.csum16);
    }
}

#endif
