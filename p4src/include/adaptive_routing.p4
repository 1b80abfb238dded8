// SPDX-License-Identifier: Apache-2.0
//
// Adaptive load balancing of DeTail (Zats, UC Berkeley 2014, section 5.2.2): every packet takes a random one of the
// acceptable ports at which few bytes would leave before it. With PFC the queues of a switch also show congestion
// downstream, because paused links fill them. Applied in ingress to classes with spray = 2, after route, whose
// choice it replaces where the destination has an entry in `acceptable`.
//
//   drain bytes of the packet's queue at each acceptable port (queue_state.p4)
//     below most_favoured_bytes at some ─────► one of those
//     else below favoured_bytes at some ─────► one of those
//     else ──────────────────────────────────► any of the acceptable ones
//   then CE, if the packet's queue has an entry in `drain_marking` and more drain bytes at the chosen port
//
// Bytes of lower priority do not count, as they leave later. The random number has 16 bits, so each of n ports is
// chosen with a probability within 2^-16 of 1/n.

#ifndef ADAPTIVE_ROUTING_P4
#define ADAPTIVE_ROUTING_P4

#include "headers.p4"
#include "queue_state.p4"

control AdaptiveRouting(inout headers_t hdr,
                        inout metadata_t meta,
                        inout standard_metadata_t standard_metadata) {

    @brief("packets to a port that was most favoured, where the destination has several")
    counter(PORTS, CounterType.packets_and_bytes) took_most_favoured;
    @brief("packets to a port that was favoured, as no acceptable one was most favoured")
    counter(PORTS, CounterType.packets_and_bytes) took_favoured;
    @brief("packets to any acceptable port, as none of them was favoured")
    counter(PORTS, CounterType.packets_and_bytes) took_any;
    @brief("packets marked CE for the drain bytes of their queue")
    counter(PORTS, CounterType.packets_and_bytes) drain_marked;

    bit<32> most_favoured_below = 0;
    bit<32> favoured_below = 0;
    bit<8>  most_favoured = 0;         // bit i: port i is below the first threshold
    bit<8>  favoured = 0;              // bit i: port i is below the second one
    bit<8>  skip = 0;                  // ports of the chosen set that come before the one that is taken
    bool    congested = false;

    action set_adaptive_thresholds(bit<32> most_favoured_bytes, bit<32> favoured_bytes) {
        most_favoured_below = most_favoured_bytes;
        favoured_below = favoured_bytes;
    }

    @brief("drain bytes below which a port is most favoured, and favoured")
    table adaptive_thresholds {
        actions = {
            set_adaptive_thresholds;
        }
        default_action = set_adaptive_thresholds(16384, 65536);
    }

#define WEIGH(slot, port) \
    queue_drain.read(drain, (bit<32>)(port ++ standard_metadata.priority)); \
    most_favoured = most_favoured | (drain < most_favoured_below ? slot : 0); \
    favoured = favoured | (drain < favoured_below ? slot : 0);

// After the slot that is taken, `skip` runs from 255 down and does not reach 0 again.
#define TAKE(slot, port) \
    standard_metadata.egress_spec = best[slot:slot] == 1 && skip == 0 ? port : standard_metadata.egress_spec; \
    skip = skip - (bit<8>)best[slot:slot];

    // Bit i of `slots` says whether port i is acceptable; unused ports are 0.
    action set_acceptable(bit<8> slots, port_t port0, port_t port1, port_t port2, port_t port3,
                          port_t port4, port_t port5, port_t port6, port_t port7) {
        bit<32> drain;
        WEIGH(8w0x01, port0)
        WEIGH(8w0x02, port1)
        WEIGH(8w0x04, port2)
        WEIGH(8w0x08, port3)
        WEIGH(8w0x10, port4)
        WEIGH(8w0x20, port5)
        WEIGH(8w0x40, port6)
        WEIGH(8w0x80, port7)
        most_favoured = most_favoured & slots;
        favoured = favoured & slots;
        bit<8> best = most_favoured != 0 ? most_favoured : (favoured != 0 ? favoured : slots);

        bit<32> members = (bit<32>)best[0:0] + (bit<32>)best[1:1] + (bit<32>)best[2:2] + (bit<32>)best[3:3]
                        + (bit<32>)best[4:4] + (bit<32>)best[5:5] + (bit<32>)best[6:6] + (bit<32>)best[7:7];
        bit<16> draw;
        random(draw, 16w0, 16w0xFFFF);
        bit<32> drawn = (bit<32>)draw * members;
        skip = drawn[23:16];
        TAKE(0, port0)
        TAKE(1, port1)
        TAKE(2, port2)
        TAKE(3, port3)
        TAKE(4, port4)
        TAKE(5, port5)
        TAKE(6, port6)
        TAKE(7, port7)
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

    action set_adaptive_next_hop(mac_t src_mac, mac_t dst_mac) {
        hdr.ethernet.src = src_mac;
        hdr.ethernet.dst = dst_mac;
    }

    @brief("addresses of both ends of the link of the chosen port")
    table adaptive_next_hop {
        key = {
            standard_metadata.egress_spec : exact @name("egress_port");   // 9 bits
        }
        actions = {
            set_adaptive_next_hop;
            @defaultonly NoAction;
        }
        const default_action = NoAction();
        size = 512;
    }

    action set_drain_marking(bit<32> threshold_bytes) {
        bit<32> drain;
        queue_drain.read(drain, (bit<32>)(standard_metadata.egress_spec ++ standard_metadata.priority));
        congested = drain > threshold_bytes;
    }

    @brief("adaptive classes, by their queue, that get CE where more drain bytes are before them; no entry: never")
    table drain_marking {
        key = {
            standard_metadata.priority : exact @name("queue");   // 3 bits
        }
        actions = {
            set_drain_marking;
            @defaultonly NoAction;
        }
        const default_action = NoAction();
        size = 8;
    }

    apply {
        if (meta.drop_reason == DropReason.NONE && standard_metadata.mcast_grp == 0) {
            adaptive_thresholds.apply();
            if (acceptable.apply().hit) {
                if (most_favoured != 0) {
                    took_most_favoured.count((bit<32>)standard_metadata.egress_spec);
                } else if (favoured != 0) {
                    took_favoured.count((bit<32>)standard_metadata.egress_spec);
                } else {
                    took_any.count((bit<32>)standard_metadata.egress_spec);
                }
                adaptive_next_hop.apply();
            }
            drain_marking.apply();
            if (congested && (hdr.ipv4.ecn == ECN_ECT0 || hdr.ipv4.ecn == ECN_ECT1)) {
                hdr.ipv4.ecn = ECN_CE;
                drain_marked.count((bit<32>)standard_metadata.egress_spec);
            }
        }
    }
}

#undef WEIGH
#undef TAKE

#endif
