// SPDX-License-Identifier: Apache-2.0
//
// Policing of machines to which bandwidth is guaranteed (Silo, SIGCOMM 2015): for each a two-rate three-colour marker
// (RFC 2698, colour-blind) with the guarantee B as CIR, the burst S as CBS and Bmax as PIR. A packet that does not
// conform is counted and, as the entry says, sent all the same, dropped, or sent in the class of best effort. Applied
// in ingress of the first hop, after traffic_class and before routing; not again when a queue refuses the packet.
//
//   no more than B t + S, at no more than Bmax ─► green: as its class says
//   more than B t + S ─► yellow ─┬─► counted, and policed
//   faster than Bmax  ─► red ────┘

#ifndef POLICING_P4
#define POLICING_P4

#include "headers.p4"

// Treatment of a packet that does not conform; 0: it is only counted.
const bit<2> POLICING_DROPS = 1;
const bit<2> POLICING_DEMOTES = 2;  // it gets the DSCP and the queue of best effort

const bit<2> METER_GREEN = 0;       // colours of v1model's meters
const bit<2> METER_YELLOW = 1;

control Policing(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    direct_meter<bit<2>>(MeterType.bytes) contract;
    @brief("packets beyond the guaranteed bandwidth and burst of their machine")
    counter(PORTS, CounterType.packets_and_bytes) policed_yellow;
    @brief("packets faster than the peak rate of their machine")
    counter(PORTS, CounterType.packets_and_bytes) policed_red;

    bit<2>  colour = METER_GREEN;
    bit<2>  reaction = 0;
    bit<6>  dscp = 0;
    queue_t queue = 0;

    action police(bit<2> excess, bit<6> dscp_value, queue_t queue_index) {
        contract.read(colour);
        reaction = excess;
        dscp = dscp_value;
        queue = queue_index;
    }

    @brief("per machine, by port and address: its meter; excess 0 counted, 1 dropped, 2 sent as best effort")
    table policing {
        key = {
            standard_metadata.ingress_port : exact @name("ingress_port");   // 9 bits
            hdr.ipv4.src                   : exact @name("src");
        }
        actions = {
            police;
            @defaultonly NoAction;
        }
        const default_action = NoAction();
        meters = contract;
        size = 4096;
    }

    apply {
        if (hdr.ipv4.isValid()) {
            policing.apply();
        }
        if (colour != METER_GREEN) {
            if (colour == METER_YELLOW) {
                policed_yellow.count((bit<32>)standard_metadata.ingress_port);
            } else {
                policed_red.count((bit<32>)standard_metadata.ingress_port);
            }
            if (reaction == POLICING_DROPS) {
                meta.drop_reason = DropReason.NOT_CONFORMING;
            } else if (reaction == POLICING_DEMOTES) {
                hdr.ipv4.dscp = dscp;
                standard_metadata.priority = queue;
                meta.mlfq = 0;
            }
        }
    }
}

#endif
