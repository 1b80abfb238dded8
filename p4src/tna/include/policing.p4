// SPDX-License-Identifier: Apache-2.0
//
// Policing of machines to which bandwidth is guaranteed (Silo), as ../../include/policing.p4: a two-rate three-colour
// meter for each, and a treatment of packets that do not conform. Applied in ingress after traffic_class, to packets
// that are to be forwarded, before routing.
//
// Meters of the chip count the FCS of a frame, contracts do not.

#ifndef TNA_POLICING_P4
#define TNA_POLICING_P4

#include "headers.p4"

// Treatment of a packet that does not conform; 0: it is only counted.
const bit<2> POLICING_DROPS = 1;
const bit<2> POLICING_DEMOTES = 2;           // it gets the DSCP and the queue of best effort

const bit<2> COLOUR_GREEN = 0;               // MeterColor_t
const bit<2> COLOUR_YELLOW = 1;

control Policing(inout headers_t hdr, inout metadata_t meta, in ingress_intrinsic_metadata_t ig_intr_md) {

    DirectMeter(MeterType_t.BYTES) contract;
    @brief("packets beyond the guaranteed bandwidth and burst of their machine")
    Counter<bit<64>, port_t>(PORTS, CounterType_t.PACKETS_AND_BYTES) policed_yellow;
    @brief("packets faster than the peak rate of their machine")
    Counter<bit<64>, port_t>(PORTS, CounterType_t.PACKETS_AND_BYTES) policed_red;

    bit<8>  colour = 0;
    bit<2>  reaction = 0;
    bit<6>  dscp = 0;
    queue_t queue = 0;

    action police(bit<2> excess, bit<6> dscp_value, queue_t queue_index) {
        colour = contract.execute(adjust_byte_count = FCS_BYTES);
        reaction = excess;
        dscp = dscp_value;
        queue = queue_index;
    }

    @brief("per machine, by port and address: its meter; excess 0 counted, 1 dropped, 2 sent as best effort")
    table policing {
        key = {
            ig_intr_md.ingress_port : exact @name("ingress_port");   // 9 bits
            hdr.ipv4.src            : exact @name("src");
        }
        actions = {
            police;
            @defaultonly NoAction;
        }
        const default_action = NoAction();
        meters = contract;
        size = 4096;
    }

    action send_as_best_effort() {
        hdr.ipv4.dscp = dscp;
        meta.queue = queue;
        meta.mlfq = 0;
    }

    apply {
        if (hdr.ipv4.isValid()) {
            policing.apply();
        }
        if (colour[1:0] != COLOUR_GREEN) {
            if (colour[1:0] == COLOUR_YELLOW) {
                policed_yellow.count(ig_intr_md.ingress_port);
            } else {
                policed_red.count(ig_intr_md.ingress_port);
            }
            if (reaction == POLICING_DROPS) {
                meta.drop_reason = DropReason.NOT_CONFORMING;
            } else if (reaction == POLICING_DEMOTES) {
                send_as_best_effort();
            }
        }
    }
}

#endif
