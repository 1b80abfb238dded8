// SPDX-License-Identifier: Apache-2.0
//
// Ethernet > ARP | IPv4 > TCP | UDP | Ebb, as ../../include/parser.p4. A parser of Tofino compares nothing but bits, so
// lengths are judged by validity.p4; a frame that ends inside a header has parser_err set. IPv4 options are not read:
// validity.p4 drops packets that have them.
//
//   ingress  port metadata ─┬─ from the recirculation port: deflected ─┬─ ethernet ─┬─ 0x0806 ─ arp
//                           └──────────────────────────────────────────┘            └─ 0x0800 ─ ipv4 ─┬─ 6 ─── tcp
//   egress   ─┬─ kind 1 ─ routed ─ ethernet ─ ipv4                                                     ├─ 17 ── udp
//             └─ kind 2 ─ deflected ─ (payload)                                                        └─ 253 ─ ebb

#ifndef TNA_PARSER_P4
#define TNA_PARSER_P4

#include "headers.p4"

parser FabricIngressParser(packet_in packet,
                           out headers_t hdr,
                           out metadata_t meta,
                           out ingress_intrinsic_metadata_t ig_intr_md) {
    Checksum() ipv4_checksum;

    state start {
        packet.extract(ig_intr_md);
        packet.advance(PORT_METADATA_SIZE);
        meta.drop_reason = DropReason.NONE;
        meta.frame_bytes = 0;
        meta.flow.starts = 0;
        meta.path = 0;
        meta.counted_bytes = 0;
        meta.multicast = 0;
        meta.queue = 0;
        meta.spray = 0;
        meta.trimmable = 0;
        meta.mlfq = 0;
        meta.demoted = 0;
        meta.refused = 0;
        meta.refused_port = 0;
        meta.ingress_port = 0;
        meta.trimmed = 0;
        meta.returnable = 0;
        meta.notifiable = 0;
        meta.notified = 0;
        meta.ebb_change = 0;
#if __TARGET_TOFINO__ == 2
        meta.most_favoured = 0;
        meta.favoured = 0;
#endif
#ifdef DEFLECTION
        transition select(ig_intr_md.ingress_port) {
            RECIRCULATION_PORT: parse_deflected;
            default:            parse_ethernet;
        }
    }

    state parse_deflected {
        packet.extract(hdr.deflected);
        transition parse_ethernet;
    }
#else
        transition parse_ethernet;
    }
#endif

    state parse_ethernet {
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
        packet.extract(hdr.ipv4);
        ipv4_checksum.add(hdr.ipv4);
        meta.checksum_error = ipv4_checksum.verify();        // true: it is wrong
        transition select(hdr.ipv4.ihl, hdr.ipv4.more_fragments, hdr.ipv4.fragment_offset, hdr.ipv4.protocol) {
            (5, 0, 0, PROTOCOL_TCP): parse_tcp;
            (5, 0, 0, PROTOCOL_UDP): parse_udp;
            (5, 0, 0, PROTOCOL_EBB): parse_ebb;
            default:                 no_flow;
        }
    }

    // A parser of Tofino may write a field once on each way through it, not first 0 and then a value.
    state no_flow {
        meta.flow.src_port = 0;
        meta.flow.dst_port = 0;
        meta.flow.session = 0;
        transition accept;
    }

    state parse_tcp {
        packet.extract(hdr.tcp);
        meta.flow.src_port = hdr.tcp.src_port;
        meta.flow.dst_port = hdr.tcp.dst_port;
        meta.flow.session = 0;
        transition accept;
    }

    state parse_udp {
        packet.extract(hdr.udp);
        meta.flow.src_port = hdr.udp.src_port;
        meta.flow.dst_port = hdr.udp.dst_port;
        meta.flow.session = 0;
        transition accept;
    }

    state parse_ebb {
        packet.extract(hdr.ebb);
        meta.flow.src_port = hdr.ebb.src_port;
        meta.flow.dst_port = hdr.ebb.dst_port;
        meta.flow.session = hdr.ebb.session;
        transition accept;
    }
}

parser FabricEgressParser(packet_in packet,
                          out egress_headers_t hdr,
                          out egress_metadata_t meta,
                          out egress_intrinsic_metadata_t eg_intr_md) {
    state start {
        packet.extract(eg_intr_md);
        meta.kind = KIND_DEFLECTED;
        meta.refused_port = 0;
        meta.ingress_port = 0;
        meta.session = 0;
        meta.frame_bytes = 0;
        meta.delta = 0;
        transition select(packet.lookahead<bit<8>>()) {
            KIND_ROUTED:    parse_routed;
            KIND_DEFLECTED: parse_deflected;
            default:        accept;
        }
    }

    state parse_routed {
        packet.extract(hdr.routed);
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.type) {
            ETHERTYPE_IPV4: parse_ipv4;
            default:        accept;
        }
    }

    state parse_ipv4 {
        packet.extract(hdr.ipv4);
        transition accept;
    }

    state parse_deflected {
        packet.extract(hdr.deflected);
        transition accept;
    }
}

#endif
