// SPDX-License-Identifier: Apache-2.0
//
// Multi-level feedback queue, as ../../include/mlfq.p4: the level comes from the sender, or from the bytes that the
// flow has sent through this switch. Applied in ingress after traffic_class and flow_hash.
//
// `mlfq_demotion` is ternary here, because a range of TNA has at most 20 bits; the controller turns a range into the
// prefixes that make it up.

#ifndef TNA_MLFQ_P4
#define TNA_MLFQ_P4

#include "headers.p4"

const bit<32> MLFQ_FLOWS = 65536;  // slots; the lower 16 bits of the flow hash choose one

// A new flow takes a slot over, so finished flows need no clean-up; two live flows in one slot keep each other at the
// top level.
struct mlfq_slot_t {
    bit<32> owner;                 // hash of the flow
    bit<32> bytes;                 // bytes that it has sent
}

control Mlfq(in headers_t hdr, inout metadata_t meta) {
    Register<mlfq_slot_t, bit<16>>(MLFQ_FLOWS) mlfq_flows;

    bit<8>  assigned = 0;
    bit<32> flow_bytes = 0;

    RegisterAction<mlfq_slot_t, bit<16>, bit<32>>(mlfq_flows) count_on = {
        void apply(inout mlfq_slot_t slot, out bit<32> before) {
            before = 0;
            if (slot.owner == meta.flow_hash) {
                before = slot.bytes;
                slot.bytes = slot.bytes |+| meta.counted_bytes;
            } else {
                slot.bytes = meta.counted_bytes;
            }
            slot.owner = meta.flow_hash;
        }
    };

    RegisterAction<mlfq_slot_t, bit<16>, bit<32>>(mlfq_flows) start_again = {
        void apply(inout mlfq_slot_t slot) {
            slot.owner = meta.flow_hash;
            slot.bytes = meta.counted_bytes;
        }
    };

    action count_flow_bytes() {
        flow_bytes = count_on.execute(meta.flow_hash[15:0]);
    }

    action start_flow() {
        start_again.execute(meta.flow_hash[15:0]);
    }

    action set_mlfq_level(bit<8> level) {
        assigned = level;
    }

    @brief("bytes sent by the flow so far to level")
    table mlfq_demotion {
        key = {
            flow_bytes : ternary @name("flow_bytes");        // 32 bits: bytes sent before this packet
        }
        actions = {
            set_mlfq_level;
        }
        default_action = set_mlfq_level(0);
        size = 512;
    }

    action set_mlfq_queue(queue_t queue) {
        meta.queue = queue;
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
            meta.counted_bytes = (bit<32>)meta.frame_bytes;
            if (hdr.tcp.isValid() && hdr.tcp.flags[1:1] == 1) {       // SYN
                start_flow();
            } else {
                count_flow_bytes();
            }
            mlfq_demotion.apply();
            if (assigned != 0) {
                meta.demoted = 1;
            }
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
