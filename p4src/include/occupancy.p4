// SPDX-License-Identifier: Apache-2.0
//
// Is the data queue of the output port full? The trigger of trimming and of drop notification for targets that
// do not deflect (stock BMv2 drops silently): the program counts the bytes between ingress and egress by itself,
// as the P4 program of NDP does. In force for a port only if `occupancy_limit` has an entry for it.
//
//   ingress: occupied + packet > limit ? refused : occupied += packet        (OccupancyAdmission, after route)
//   egress:  occupied -= packet                                              (OccupancyRelease)
//
// Only packets of a trimmable class count; control packets and trimmed ones never do. Multicast is not
// counted: its ports are chosen after ingress. The limit has to be well below what the target's queue holds,
// because a packet lost between ingress and egress stays counted.

#ifndef OCCUPANCY_P4
#define OCCUPANCY_P4

#include "headers.p4"

// By output port: bytes of the trimmable packets that are between ingress and egress.
register<bit<32>>(PORTS) occupied_bytes;

control OccupancyAdmission(inout metadata_t meta, in standard_metadata_t standard_metadata) {

    // Read, compare and write in one action: BMv2 locks registers per action, and its egress threads run
    // beside ingress.
    action set_occupancy_limit(bit<32> limit_bytes) {
        bit<32> occupied;
        occupied_bytes.read(occupied, (bit<32>)standard_metadata.egress_spec);
        bit<32> with_packet = occupied + meta.frame_bytes;
        meta.refused = with_packet > limit_bytes ? 1w1 : 1w0;
        meta.occupying = ~meta.refused;
        meta.refused_port = standard_metadata.egress_spec;
        occupied_bytes.write((bit<32>)standard_metadata.egress_spec,
                             with_packet > limit_bytes ? occupied : with_packet);
    }

    @brief("only where the occupancy counter of the program is the trigger of trimming (stock BMv2)")
    table occupancy_limit {
        key = {
            standard_metadata.egress_spec : exact @name("egress_port");   // 9 bits
        }
        actions = {
            set_occupancy_limit;
            @defaultonly NoAction;
        }
        const default_action = NoAction();
        size = 512;
    }

    apply {
        if (meta.trimmable == 1 && standard_metadata.mcast_grp == 0) {
            occupancy_limit.apply();
        }
    }
}

control OccupancyRelease(in metadata_t meta, in standard_metadata_t standard_metadata) {

    action release() {
        bit<32> occupied;
        occupied_bytes.read(occupied, (bit<32>)standard_metadata.egress_port);
        occupied_bytes.write((bit<32>)standard_metadata.egress_port, occupied - meta.frame_bytes);
    }

    apply {
        if (meta.occupying == 1) {
            release();
        }
    }
}

#endif
