// SPDX-License-Identifier: Apache-2.0
//
// Is the data queue of the output port full? The trigger of trimming where the traffic manager is not to deflect; see
// ../../include/occupancy.p4. Ingress and egress share no memory, so a meter stands for the queue: its bucket holds
// limit_bytes and fills at the rate of the link, so the tokens that it lacks are the bytes in a queue that the link
// serves. A packet that exceeds them goes to the deflection port (deflection.p4). Applied in ingress after route.
//
// The burst and the rate of the meter are set beside the entry (ebb_controller.tna); limit_bytes is there so that the
// same entry installs both.

#ifndef TNA_OCCUPANCY_P4
#define TNA_OCCUPANCY_P4

#include "deflection.p4"
#include "headers.p4"

control OccupancyAdmission(inout headers_t hdr,
                           inout metadata_t meta,
                           inout ingress_intrinsic_metadata_for_tm_t ig_tm_md) {

    @brief("the queue of trimmable packets of each port")
    Meter<port_t>(PORTS, MeterType_t.BYTES) occupied_bytes;

    bit<8> colour = 0;

    action set_occupancy_limit(bit<32> limit_bytes) {
        colour = occupied_bytes.execute(ig_tm_md.ucast_egress_port);
    }

    @brief("only where the meter of the program is the trigger of trimming, not deflect-on-drop")
    table occupancy_limit {
        key = {
            ig_tm_md.ucast_egress_port : exact @name("egress_port"); // 9 bits
        }
        actions = {
            set_occupancy_limit;
            @defaultonly NoAction;
        }
        const default_action = NoAction();
        size = 512;
    }

    action deflect() {
        hdr.routed.refused = 1;
        ig_tm_md.ucast_egress_port[6:0] = DEFLECTION_PORT_OF_PIPE;
    }

    apply {
        if (meta.trimmable == 1 && meta.multicast == 0) {
            occupancy_limit.apply();
            if (colour[1:0] == 3) {                          // RED of MeterColor_t
                deflect();
            }
        }
    }
}

#endif
