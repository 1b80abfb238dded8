// SPDX-License-Identifier: Apache-2.0
//
// IPv4 routing, as ../../include/route.p4. Applied in ingress to packets that arrive for the first time.
//
// The member of a group is chosen by x := (flow hash ^ entropy) + seed; x := CRC32(x) + seed, and of x the CRC of the
// selector. TNA has no multiplier. CRCs are linear: with them alone, switches with different seeds would send the flows
// that they share to one side (polarisation). The carries of the sums are not linear; docs/porting-tofino.md has
// figures, and those of a single sum, which does not suffice.

#ifndef TNA_ROUTE_P4
#define TNA_ROUTE_P4

#include "headers.p4"

const bit<32> ECMP_MEMBERS = 2048;           // next hops of all groups
const bit<32> ECMP_GROUPS = 1024;
const bit<32> ECMP_GROUP_MEMBERS = 120;      // of one group: as many as a row of the selector's memory holds

// Input of the selector. Applied after flow_hash and traffic_class to all IPv4, dropped packets too: under a condition
// on drops it would need stages after the blocks that decide on them.
control Path(in headers_t hdr, inout metadata_t meta) {
    Random<bit<32>>() random;
    Hash<bit<32>>(HashAlgorithm_t.CRC32) mix;

    bit<32> entropy = 0;
    bit<32> addend = 0;

    action set_hash_seed(bit<32> seed) {
        meta.path = meta.path + seed;
        addend = seed;
    }

    @brief("per switch, against polarisation")
    table hash_settings {
        actions = {
            set_hash_seed;
        }
        default_action = set_hash_seed(0x9E3779B1);          // 2^32 / golden ratio
        size = 1;
    }

    apply {
        if (meta.spray == SPRAY_PACKET) {
            if (hdr.ebb.isValid()) {
                entropy = (bit<32>)hdr.ebb.entropy;
            } else {
                entropy = random.get();
            }
        }
        meta.path = meta.flow_hash ^ entropy;
        hash_settings.apply();
        meta.path = mix.get({ meta.path });
        meta.path = meta.path + addend;
    }
}

control Route(inout headers_t hdr,
              inout metadata_t meta,
              in ingress_intrinsic_metadata_t ig_intr_md,
              inout ingress_intrinsic_metadata_for_tm_t ig_tm_md) {

    Hash<bit<16>>(HashAlgorithm_t.CRC16) ecmp_hash;
    ActionProfile(ECMP_MEMBERS) ecmp;        // P4Info has this name, for members and groups
    ActionSelector(ecmp, ecmp_hash, SelectorMode_t.FAIR, ECMP_GROUP_MEMBERS, ECMP_GROUPS) ecmp_selector;
    @brief("packets to the group, before they are copied")
    Counter<bit<64>, bit<10>>(1024, CounterType_t.PACKETS_AND_BYTES) replicated;
    action set_next_hop(port_t port, mac_t src_mac, mac_t dst_mac) {
        ig_tm_md.ucast_egress_port = port;
        hdr.ethernet.src = src_mac;
        hdr.ethernet.dst = dst_mac;
        hdr.ipv4.ttl = hdr.ipv4.ttl - 1;
    }

    // The copy to the port that the packet came by is left out before it is made: level 2 exclusion.
    action set_multicast_group(bit<16> group) {
        meta.multicast = 1;
        ig_tm_md.mcast_grp_a = group;
        ig_tm_md.rid = 1;                                    // instance of the controller's replicas
        ig_tm_md.level2_exclusion_id = ig_intr_md.ingress_port;
        hdr.ipv4.ttl = hdr.ipv4.ttl - 1;
    }

    action drop() {
        meta.drop_reason = DropReason.ROUTE_DROP;
    }

    @brief("routing; the input of the selector is a hash of the flow, and of the entropy when the class is sprayed")
    table ipv4_route {
        key = {
            hdr.ipv4.dst : lpm @name("dst");                 // 32 bits
            meta.path    : selector;                         // 32 bits
        }
        actions = {
            set_next_hop;
            set_multicast_group;
            drop;
        }
        implementation = ecmp_selector;
        size = 4096;
    }

    apply {
        if (hdr.ipv4.ttl[7:1] == 0) {
            meta.drop_reason = DropReason.TTL_EXPIRED;
        } else {
            if (!ipv4_route.apply().hit) {
                meta.drop_reason = DropReason.NO_ROUTE;
            } else if (meta.multicast == 1) {
                replicated.count(ig_tm_md.mcast_grp_a[9:0]);
            }
        }
    }
}

#endif
