// SPDX-License-Identifier: Apache-2.0
//
// Ethernet > ARP | IPv4 (with options) > TCP | UDP | Ebb. Lengths are checked where the header is read; what
// is wrong ends up in standard_metadata.parser_error and validity.p4 gives it a drop reason.
//
//   ethernet ─┬─ 0x0806 ─ arp
//             └─ 0x0800 ─ ipv4 ─┬─ fragment, other protocol ─ (payload)
//                               ├─ 6 ─── tcp
//                               ├─ 17 ── udp
//                               └─ 253 ─ ebb
//
// A fragment is never looked into, not even the first: all fragments of a packet must take one path.

#ifndef PARSER_P4
#define PARSER_P4

#include "headers.p4"

error {
    Ipv4Version,
    Ipv4HeaderLength,
    Ipv4TotalLength
}

parser FabricParser(packet_in packet,
                    out headers_t hdr,
                    inout metadata_t meta,
                    inout standard_metadata_t standard_metadata) {

    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.type) {
            ETHERTYPE_IPV4: parse_ipv4;
            ETHERTYPE_ARP:  parse_arp;
            default:        accept;
        }
    }

    state parse_arp {
        packet.extract(hdr.arp);
        transition accept;
    }

    state parse_ipv4 {
        bit<8> first = packet.lookahead<bit<8>>();
        verify(first[7:4] == 4, error.Ipv4Version);
        verify(first[3:0] >= 5, error.Ipv4HeaderLength);
        packet.extract(hdr.ipv4, ((bit<32>)first[3:0] - 5) * 32);
        bit<16> header_bytes = (bit<16>)first[3:0] * 4;
        verify(hdr.ipv4.total_length >= header_bytes, error.Ipv4TotalLength);
        meta.l4_bytes = hdr.ipv4.total_length - header_bytes;
        transition select(hdr.ipv4.more_fragments, hdr.ipv4.fragment_offset, hdr.ipv4.protocol) {
            (0, 0, PROTOCOL_TCP): parse_tcp;
            (0, 0, PROTOCOL_UDP): parse_udp;
            (0, 0, PROTOCOL_EBB): parse_ebb;
            default:              accept;
        }
    }

    state parse_tcp {
        verify(meta.l4_bytes >= TCP_MINIMUM_BYTES, error.PacketTooShort);
        packet.extract(hdr.tcp);
        meta.flow.src_port = hdr.tcp.src_port;
        meta.flow.dst_port = hdr.tcp.dst_port;
        meta.flow.starts = hdr.tcp.flags[1:1];     // SYN
        transition accept;
    }

    state parse_udp {
        verify(meta.l4_bytes >= UDP_BYTES, error.PacketTooShort);
        packet.extract(hdr.udp);
        meta.flow.src_port = hdr.udp.src_port;
        meta.flow.dst_port = hdr.udp.dst_port;
        transition accept;
    }

    state parse_ebb {
        verify(meta.l4_bytes >= EBB_BYTES, error.PacketTooShort);
        packet.extract(hdr.ebb);
        meta.flow.src_port = hdr.ebb.src_port;
        meta.flow.dst_port = hdr.ebb.dst_port;
        meta.flow.session = hdr.ebb.session;
        transition accept;
    }
}

#endif
