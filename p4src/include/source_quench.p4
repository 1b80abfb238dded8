// SPDX-License-Identifier: Apache-2.0
//
// Source Quench (RFC 792), a baseline of FastLane (Zats, UC Berkeley 2014, section 6.3): where CoDel would drop or mark
// a TCP packet, an ICMP message asks its sender to send less, and the packet is forwarded unchanged.
// Applied in egress after codel.p4, to the packet and to the copy of it that becomes the message:
//
//   meta.quench ─┬─ no TCP, to or from a group, no entry ─► nothing
//                └─ else ─► cloned to its ingress port, into the queue of the priority that it has
//   the copy ─► Ethernet | IPv4, addresses swapped, DSCP as it was | ICMP 4 | IPv4 header as it was | 8 bytes of TCP
//
// The copy goes through the clone session `ingress port * 8 + queue`: so the message has the priority of its packet, as
// in the thesis (stock BMv2 puts it into queue 0). Its source is the packet's destination: switches have no addresses.

#ifndef SOURCE_QUENCH_P4
#define SOURCE_QUENCH_P4

#include "headers.p4"

const bit<8>  PROTOCOL_ICMP      = 1;
const bit<8>  ICMP_SOURCE_QUENCH = 4;
const bit<16> PLAIN_IPV4_BYTES   = 20;
const bit<16> ICMP_BYTES         = 8;
const bit<16> QUOTED_BYTES       = 8;   // quoted of the IPv4 payload: ports and sequence number of TCP

control SourceQuench(inout headers_t hdr,
                     inout metadata_t meta,
                     in standard_metadata_t standard_metadata) {

    @brief("packets whose sender was notified of a slow queue")
    counter(PORTS, CounterType.packets_and_bytes) quenched;

    port_t port = 0;
    mac_t  port_mac = 0;
    mac_t  neighbour_mac = 0;

    action set_quench(mac_t src_mac, mac_t dst_mac) {
        port_mac = src_mac;
        neighbour_mac = dst_mac;
    }

    @brief("ports by which senders are notified of slow queues, with both addresses of the link; no entry: off")
    table source_quench {
        key = {
            port : exact @name("port");                    // 9 bits
        }
        actions = {
            set_quench;
            @defaultonly NoAction;
        }
        const default_action = NoAction();
        size = 512;
    }

    action quench() {
        clone(CloneType.E2E, (bit<32>)(standard_metadata.ingress_port ++ standard_metadata.priority));
        quenched.count((bit<32>)standard_metadata.egress_port);
    }

    action become_message() {
        bit<16> quotation = (bit<16>)hdr.ipv4.ihl * 4 + QUOTED_BYTES;
        hdr.message.setValid();
        hdr.message.version = 4;
        hdr.message.ihl = 5;
        hdr.message.dscp = hdr.ipv4.dscp;
        hdr.message.ecn = 0;
        hdr.message.total_length = PLAIN_IPV4_BYTES + ICMP_BYTES + quotation;
        hdr.message.identification = 0;
        hdr.message.reserved = 0;
        hdr.message.dont_fragment = 1;
        hdr.message.more_fragments = 0;
        hdr.message.fragment_offset = 0;
        hdr.message.ttl = 64;
        hdr.message.protocol = PROTOCOL_ICMP;
        hdr.message.src = hdr.ipv4.dst;
        hdr.message.dst = hdr.ipv4.src;
        hdr.icmp.setValid();
        hdr.icmp.type = ICMP_SOURCE_QUENCH;
        hdr.icmp.code = 0;
        hdr.icmp.unused = 0;
        hdr.ethernet.src = port_mac;
        hdr.ethernet.dst = neighbour_mac;
        meta.frame_bytes = (bit<32>)(ETHERNET_BYTES + hdr.message.total_length);
        truncate(meta.frame_bytes);
    }

    apply {
        bool is_copy = standard_metadata.instance_type == INSTANCE_EGRESS_CLONE;
        if (is_copy || meta.quench == 1 && hdr.tcp.isValid()
                && hdr.ipv4.dst[31:28] != CLASS_D && hdr.ipv4.src[31:28] != CLASS_D) {
            port = is_copy ? standard_metadata.egress_port : standard_metadata.ingress_port;
            if (source_quench.apply().hit) {
                if (is_copy) {
                    become_message();
                } else {
                    quench();
                }
            } else if (is_copy) {
                meta.drop_reason = DropReason.NO_ROUTE;    // the entry was deleted since
            }
        }
    }
}

#endif
