// SPDX-License-Identifier: Apache-2.0
//
// Multi-level feedback queue: the less a flow has sent, the higher its queue (PIAS, NSDI 2015; SCDP section
// 3.2 lets the sender do the counting). The class says which mode applies:
//
//   mlfq = 0  off: the queue of the class
//   mlfq = 1  level := the level in the Ebb header, assigned by the sender ─┐
//   mlfq = 2  level := mlfq_demotion[bytes of the flow so far] ─────────────┴─► queue := mlfq_level[level]
//
// A level without an entry, or a packet without a level, keeps the queue of the class. Applied in ingress after
// traffic_class and flow_hash.

#ifndef MLFQ_P4
#define MLFQ_P4

#include "headers.p4"

const bit<32> MLFQ_FLOWS = 65536;  // slots; the lower 16 bits of the flow hash choose one

control Mlfq(in headers_t hdr,
             inout metadata_t meta,
             inout standard_metadata_t standard_metadata) {

    // A slot: hash of the flow that owns it (32 bits) ++ bytes it has sent (32 bits). A new flow takes it over, so
    // finished flows need no clean-up; two live flows in one slot keep each other at the top level.
    register<bit<64>>(MLFQ_FLOWS) mlfq_flows;

    bit<8>  assigned = 0;
    bit<32> flow_bytes = 0;

    // One action, because a target locks registers per action and not per packet.
    action count_flow_bytes() {
        bit<64> slot;
        mlfq_flows.read(slot, (bit<32>)meta.flow_hash[15:0]);
        bool known = slot[63:32] == meta.flow_hash && meta.flow.starts == 0;
        flow_bytes = known ? slot[31:0] : 0;
        bit<32> sum = flow_bytes + meta.frame_bytes;
        mlfq_flows.write((bit<32>)meta.flow_hash[15:0],
                         meta.flow_hash ++ (sum < flow_bytes ? 32w0xFFFFFFFF : sum));
    }

    action set_mlfq_level(bit<8> level) {
        assigned = level;
    }

    @brief("bytes sent by the flow so far to level")
    table mlfq_demotion {
        key = {
            flow_bytes : range @name("flow_bytes");          // 32 bits: bytes sent before this packet
        }
        actions = {
            set_mlfq_level;
        }
        default_action = set_mlfq_level(0);
        size = 16;
    }

    action set_mlfq_queue(queue_t queue) {
        standard_metadata.priority = queue;
    }

    @brief("level to queue: assigned by the sender, or from mlfq_demotion")
    table mlfq_level {
        key = {
            assigned : exact @name("level");                 // 8 bits
        }
        actions = {
            set_mlfq_queue;
            @defaultonly NoAction;
        }
        const default_action = NoAction();
        size = 256;
    }

    apply {
        bool has_level = true;
        if (meta.mlfq == MLFQ_SWITCH) {
            count_flow_bytes();
            mlfq_demotion.apply();
            meta.demoted = assigned != 0 ? 1w1 : 1w0;
        } else if (meta.mlfq == MLFQ_SENDER && hdr.ebb.isValid()) {
            assigned = hdr.ebb.level;
        } else {
            has_level = false;
        }
        if (has_level) {
            mlfq_level.apply();
        }
    }
}

#endif
