// SPDX-License-Identifier: Apache-2.0
//
// Adaptive load balancing of DeTail, as ../../include/adaptive_routing.p4; Tofino 2 only, as only its ingress learns
// the depths of queues (queue_state.p4). Applied in ingress to classes with spray = 2, after route, whose choice it
// replaces where the destination has an entry in `acceptable`.
//
//   depth of the packet's queue at each acceptable port, in cells of 176 bytes
//     below most_favoured_bytes at some ─────► one of those
//     else below favoured_bytes at some ─────► one of those
//     else ──────────────────────────────────► any of the acceptable ones
//
// `pick` has, for every set of ports, the slots that the values of a random byte stand for (ebb_controller.tna); of n
// ports each is chosen with a probability within 1/256 of 1/n.

#ifndef TNA_ADAPTIVE_ROUTING_P4
#define TNA_ADAPTIVE_ROUTING_P4

#include "headers.p4"
#include "queue_state.p4"

// Reads of slot i: is the drain of its queue below the first threshold, below the second one?
#define WEIGHER(slot) \
    Hash<queue_index_t>(HashAlgorithm_t.IDENTITY) index##slot; \
    RegisterAction<bit<32>, queue_index_t, bit<1>>(most_drain##slot) weigh_most##slot = { \
        void apply(inout bit<32> drain, out bit<1> below) { \
            below = 0; \
            if (drain < meta.most_favoured_below) { \
                below = 1; \
            } \
        } \
    }; \
    RegisterAction<bit<32>, queue_index_t, bit<1>>(favoured_drain##slot) weigh_favoured##slot = { \
        void apply(inout bit<32> drain, out bit<1> below) { \
            below = 0; \
            if (drain < meta.favoured_below) { \
                below = 1; \
            } \
        } \
    };

#define WEIGH(slot) \
    if (meta.slots[slot:slot] == 1) { \
        meta.most_favoured[slot:slot] = weigh_most##slot.execute(index##slot.get({ meta.port##slot, meta.queue })); \
        meta.favoured[slot:slot] = weigh_favoured##slot.execute(index##slot.get({ meta.port##slot, meta.queue })); \
    }

#define TAKE(slot) \
    action take##slot() { \
        ig_tm_md.ucast_egress_port = meta.port##slot; \
    }

control AdaptiveRouting(inout headers_t hdr,
                        inout metadata_t meta,
                        inout ingress_intrinsic_metadata_for_tm_t ig_tm_md) {

    @brief("packets to a port that was most favoured, where the destination has several")
    Counter<bit<64>, port_t>(PORTS, CounterType_t.PACKETS_AND_BYTES) took_most_favoured;
    @brief("packets to a port that was favoured, as no acceptable one was most favoured")
    Counter<bit<64>, port_t>(PORTS, CounterType_t.PACKETS_AND_BYTES) took_favoured;
    @brief("packets to any acceptable port, as none of them was favoured")
    Counter<bit<64>, port_t>(PORTS, CounterType_t.PACKETS_AND_BYTES) took_any;
    Random<bit<8>>() random;

    bit<8> best = 0;
    bit<8> draw = 0;

    WEIGHER(0)
    WEIGHER(1)
    WEIGHER(2)
    WEIGHER(3)
    WEIGHER(4)
    WEIGHER(5)
    WEIGHER(6)
    WEIGHER(7)

    action set_adaptive_thresholds(bit<32> most_favoured_bytes, bit<32> favoured_bytes) {
        meta.most_favoured_below = most_favoured_bytes;
        meta.favoured_below = favoured_bytes;
    }

    @brief("depth in cells below which a port is most favoured, and favoured")
    table adaptive_thresholds {
        actions = {
            set_adaptive_thresholds;
        }
        default_action = set_adaptive_thresholds(93, 372);   // 16 KB and 64 KB
        size = 1;
    }

    // Bit i of `slots` says whether port i is acceptable; unused ports are 0.
    action set_acceptable(bit<8> slots, port_t port0, port_t port1, port_t port2, port_t port3,
                          port_t port4, port_t port5, port_t port6, port_t port7) {
        meta.slots = slots;
        meta.port0 = port0;
        meta.port1 = port1;
        meta.port2 = port2;
        meta.port3 = port3;
        meta.port4 = port4;
        meta.port5 = port5;
        meta.port6 = port6;
        meta.port7 = port7;
    }

    @brief("ports on a shortest path to the destination, where it has several; bit i of slots is for port i")
    table acceptable {
        key = {
            hdr.ipv4.dst : lpm @name("dst");                 // 32 bits
        }
        actions = {
            set_acceptable;
            @defaultonly NoAction;
        }
        const default_action = NoAction();
        size = 4096;
    }

    TAKE(0)
    TAKE(1)
    TAKE(2)
    TAKE(3)
    TAKE(4)
    TAKE(5)
    TAKE(6)
    TAKE(7)

    @brief("the slot of a set that a random number stands for")
    table pick {
        key = {
            best : exact @name("slots");                     // 8 bits
            draw : range @name("draw");                      // 8 bits
        }
        actions = {
            take0;
            take1;
            take2;
            take3;
            take4;
            take5;
            take6;
            take7;
            @defaultonly NoAction;
        }
        const default_action = NoAction();
        size = 1024;
    }

    action set_adaptive_next_hop(mac_t src_mac, mac_t dst_mac) {
        hdr.ethernet.src = src_mac;
        hdr.ethernet.dst = dst_mac;
    }

    @brief("addresses of both ends of the link of the chosen port")
    table adaptive_next_hop {
        key = {
            ig_tm_md.ucast_egress_port : exact @name("egress_port"); // 9 bits
        }
        actions = {
            set_adaptive_next_hop;
            @defaultonly NoAction;
        }
        const default_action = NoAction();
        size = 512;
    }

    apply {
        if (meta.drop_reason == DropReason.NONE && meta.multicast == 0) {
            adaptive_thresholds.apply();
            if (acceptable.apply().hit) {
                WEIGH(0)
                WEIGH(1)
                WEIGH(2)
                WEIGH(3)
                WEIGH(4)
                WEIGH(5)
                WEIGH(6)
                WEIGH(7)
                draw = random.get();
                if (meta.most_favoured != 0) {
                    best = meta.most_favoured;
                } else if (meta.favoured != 0) {
                    best = meta.favoured;
                } else {
                    best = meta.slots;
                }
                pick.apply();
                if (meta.most_favoured != 0) {
                    took_most_favoured.count(ig_tm_md.ucast_egress_port);
                } else if (meta.favoured != 0) {
                    took_favoured.count(ig_tm_md.ucast_egress_port);
                } else {
                    took_any.count(ig_tm_md.ucast_egress_port);
                }
                adaptive_next_hop.apply();
            }
        }
    }
}

#undef WEIGHER
#undef WEIGH
#undef TAKE

#endif
