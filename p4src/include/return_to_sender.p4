// SPDX-License-Identifier: Apache-2.0
//
// Return-to-sender (NDP, SIGCOMM 2017, section 3.2): a trimmed header that does not fit into the control queue
// either is turned round to its sender, which thus learns of the loss within a round trip instead of by a
// timeout. Format: docs/wire-format.md, "Return to sender". Applied in ingress to deflected Ebb packets, before
// trimming; what it turns round is routed again, by its new destination.
//
//   deflected ─┬─ DSCP without an entry, no DATA or SYMBOL, to a group ─► left to trimming
//              ├─ returned already ─► drop
//              └─ else ─► addresses swapped, TRIMMED and RETURNED set ─► route
//
// Only a target that deflects a second time, from the control queue, gets here with a header (`on_full` =
// "deflect"); on others the table has no effect.

#ifndef RETURN_TO_SENDER_P4
#define RETURN_TO_SENDER_P4

#include "ebb_flags.p4"
#include "headers.p4"
#include "multicast.p4"

control ReturnToSender(inout headers_t hdr,
                       inout metadata_t meta,
                       in standard_metadata_t standard_metadata) {

    @brief("headers turned round, by the port that refused them")
    counter(PORTS, CounterType.packets_and_bytes) returned;

    bool returnable = false;

    action return_header() {
        returnable = true;
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
        set_ebb_flags(hdr.ebb, EBB_TRIMMED | EBB_RETURNED);
        meta.refused = 0;
        returned.count((bit<32>)meta.refused_port);
    }

    apply {
        return_to_sender.apply();
        if (returnable && (hdr.ebb.type == EBB_DATA || hdr.ebb.type == EBB_SYMBOL)) {
            if (hdr.ebb.flags & EBB_RETURNED != 0) {
                meta.drop_reason = DropReason.RETURN_REFUSED;
            } else if (hdr.ipv4.dst[31:28] != CLASS_D && hdr.ipv4.src[31:28] != CLASS_D) {
                turn_round();
            }
        }
    }
}

#endif
