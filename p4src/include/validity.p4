// SPDX-License-Identifier: Apache-2.0
//
// Is the packet one that may be forwarded? Sets meta.drop_reason if not. Applied first in ingress, after void_frames
// only, which reads nothing but MAC addresses. TTL belongs to routing (route.p4).
//
// An IPv4 packet longer than its frame has lost its end and is dropped, except for drop notifications, which a switch
// has cut on purpose (drop_notification.p4).

#ifndef VALIDITY_P4
#define VALIDITY_P4

#include "headers.p4"

control Validity(in headers_t hdr, inout metadata_t meta, in standard_metadata_t standard_metadata) {
    action accept_cut() {
    }

    @brief("classes of TCP packets that a switch has cut after their header (drop_notification.p4); no entry: none")
    table notification_class {
        key = {
            hdr.ipv4.dscp : exact @name("dscp");             // 6 bits
        }
        actions = {
            accept_cut;
            @defaultonly NoAction;
        }
        const default_action = NoAction();
        size = 64;
    }

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
            if ((bit<32>)hdr.ipv4.total_length + (bit<32>)ETHERNET_BYTES > standard_metadata.packet_length
                    && !(hdr.tcp.isValid() && notification_class.apply().hit)) {
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
