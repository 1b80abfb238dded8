// SPDX-License-Identifier: Apache-2.0
//
// Is the packet one that may be forwarded? Sets meta.drop_reason if not. First in ingress, before any other
// block looks at a header. TTL belongs to routing (route.p4).

#ifndef VALIDITY_P4
#define VALIDITY_P4

#include "headers.p4"

control Validity(in headers_t hdr, inout metadata_t meta, in standard_metadata_t standard_metadata) {
    apply {
        if (standard_metadata.parser_error == error.Ipv4Version) {
            meta.drop_reason = DropReason.IPV4_VERSION;
        } else if (standard_metadata.parser_error == error.Ipv4HeaderLength) {
            meta.drop_reason = DropReason.IPV4_HEADER_LENGTH;
        } else if (standard_metadata.parser_error == error.Ipv4TotalLength) {
            meta.drop_reason = DropReason.IPV4_TOTAL_LENGTH;
        } else if (standard_metadata.parser_error != error.NoError) {
            meta.drop_reason = DropReason.TRUNCATED;
        } else if (hdr.ipv4.isValid()) {
            if ((bit<32>)hdr.ipv4.total_length + (bit<32>)ETHERNET_BYTES > standard_metadata.packet_length) {
                meta.drop_reason = DropReason.IPV4_TOTAL_LENGTH;
            } else if (standard_metadata.checksum_error == 1) {
                meta.drop_reason = DropReason.IPV4_CHECKSUM;
            } else if (hdr.ebb.isValid() && hdr.ebb.version != EBB_VERSION) {
                meta.drop_reason = DropReason.EBB_VERSION;
            }
        } else if (!hdr.arp.isValid()) {
            meta.drop_reason = DropReason.UNKNOWN_ETHERTYPE;
        }
    }
}

#endif
