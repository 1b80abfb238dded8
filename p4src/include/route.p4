// SPDX-License-Identifier: Apache-2.0
//
// IPv4 routing: next hop out of an ECMP group, multicast group, or drop. Applied in ingress after flow_hash and
// traffic_class, to packets on their first pass and to returned headers; other deflected packets are routed already.
//
// The class decides how the member of a group is chosen:
//   spray = 0  by flow: all its packets take one path
//   spray = 1  by packet: flow and `entropy` of the Ebb header, which the sender varies (NDP section 3.1.1,
//              SCDP section 3.2); a packet without that header takes a random path
//   spray = 2  by flow, and then by adaptive_routing.p4 where the destination has several ports
//
// The hash is multiplied by a per-switch number (`hash_settings`), and the upper half of the product selects. A
// seed of the CRC would not do: CRCs are linear, so two switches with different seeds would still send the flows
// that they share to one side (polarisation).

#ifndef ROUTE_P4
#define ROUTE_P4

#include "headers.p4"

control Route(inout headers_t hdr,
              inout metadata_t meta,
              inout standard_metadata_t standard_metadata) {

    // Up to 16384 members and groups; the hash that picks a member has 16 bits.
    action_selector(HashAlgorithm.crc16, 16384, 16) ecmp;
    @brief("packets to the group, before they are copied")
    counter(1024, CounterType.packets_and_bytes) replicated;

    bit<32> multiplier = 0;
    bit<16> path = 0;

    action set_hash_seed(bit<32> seed) {
        multiplier = seed | 1;
    }

    @brief("per switch, against polarisation")
    table hash_settings {
        actions = {
            set_hash_seed;
        }
        default_action = set_hash_seed(0x9E3779B1);          // 2^32 / golden ratio
    }

    action set_next_hop(port_t port, mac_t src_mac, mac_t dst_mac) {
        standard_metadata.egress_spec = port;
        hdr.ethernet.src = src_mac;
        hdr.ethernet.dst = dst_mac;
        hdr.ipv4.ttl = hdr.ipv4.ttl - 1;
    }

    action set_multicast_group(bit<16> group) {
        standard_metadata.mcast_grp = group;
        hdr.ipv4.ttl = hdr.ipv4.ttl - 1;
    }

    action drop() {
        meta.drop_reason = DropReason.ROUTE_DROP;
    }

    @brief("routing; the input of the selector is a hash of the flow, and of the entropy when the class is sprayed")
    table ipv4_route {
        key = {
            hdr.ipv4.dst : lpm @name("dst");                 // 32 bits
            path         : selector;                         // 16 bits
        }
        actions = {
            set_next_hop;
            set_multicast_group;
            drop;
        }
        implementation = ecmp;
        size = 4096;
    }

    apply {
        if (hdr.ipv4.ttl <= 1) {
            meta.drop_reason = DropReason.TTL_EXPIRED;
        } else {
            bit<16> entropy = 0;
            if (meta.spray == SPRAY_PACKET) {
                if (hdr.ebb.isValid()) {
                    entropy = hdr.ebb.entropy;
                } else {
                    random(entropy, 16w0, 16w0xFFFF);
                }
            }
            hash_settings.apply();
            bit<32> mixed = (meta.flow_hash ^ (bit<32>)entropy) * multiplier;
            path = mixed[31:16];
            if (!ipv4_route.apply().hit) {
                meta.drop_reason = DropReason.NO_ROUTE;
            } else if (standard_metadata.mcast_grp != 0) {
                replicated.count((bit<32>)standard_metadata.mcast_grp);
            }
        }
    }
}

#endif
