// SPDX-License-Identifier: Apache-2.0
//
// Puts the headers back in front of the payload; those that were not parsed are skipped.

#ifndef DEPARSER_P4
#define DEPARSER_P4

#include "headers.p4"

control FabricDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.ethernet);
        packet.emit(hdr.arp);
#ifdef FABRIC_CODEL
        packet.emit(hdr.message);
        packet.emit(hdr.icmp);
#endif
        packet.emit(hdr.ipv4);
        packet.emit(hdr.tcp);
        packet.emit(hdr.udp);
        packet.emit(hdr.ebb);
    }
}

#endif
