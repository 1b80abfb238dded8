// SPDX-License-Identifier: Apache-2.0
//
// Return-to-sender, as ../../include/return_to_sender.p4: a trimmed header that does not fit into the control queue
// either is turned round to its sender. Applied in ingress to Ebb packets, before trimming: deflected ones may be
// turned round and routed again; all others get meta.returnable if they are to come back when their queue is full.

#ifndef TNA_RETURN_TO_SENDER_P4
#define TNA_RETURN_TO_SENDER_P4

#include "ebb_flags.p4"
#include "headers.p4"

control ReturnToSender(inout headers_t hdr, inout metadata_t meta) {

    @brief("headers turned round, by the port that refused them")
    Counter<bit<64>, port_t>(PORTS, CounterType_t.PACKETS_AND_BYTES) returned;

    action return_header() {
        meta.returnable = 1;
    }

    @brief("classes of trimmed headers that are turned round when the control queue refuses them; no entry: off")
    table return_to_sender {
        key = {
            hdr.ipv4.dscp : exact @name("dscp");             // 6 bits
        }
        actions = {
            return_header;
            @defaultonly NoAction;
        }
        const default_action = NoAction();
        size = 64;
    }

    // Ports are not swapped: the source port stays that of the sender, to which the header returns.
    action turn_round() {
        ipv4_address_t sender = hdr.ipv4.src;
        hdr.ipv4.src = hdr.ipv4.dst;
        hdr.ipv4.dst = sender;
        meta.ebb_change = EBB_CHANGE_RETURNED;
        meta.refused = 0;
        returned.count(meta.refused_port);
    }

    action drop_returned() {
        meta.drop_reason = DropReason.RETURN_REFUSED;
    }

    apply {
        return_to_sender.apply();
        // Packet types 0 and 1 are those with payload, EBB_DATA and EBB_SYMBOL.
        if (meta.refused == 1 && meta.returnable == 1 && hdr.ebb.type[3:1] == 0) {
            if (hdr.ebb.flags[7:7] == 1) {                   // EBB_RETURNED
                drop_returned();
            } else if (hdr.ipv4.dst[31:28] != CLASS_D && hdr.ipv4.src[31:28] != CLASS_D) {
                turn_round();
            }
        }
    }
}

#endif
