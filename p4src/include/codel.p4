// SPDX-License-Identifier: Apache-2.0
//
// CoDel (RFC 8289, section 5): once all packets of a queue have waited for `target` or longer over an `interval`,
// packets are due one by one, the next one interval / sqrt(n) after the n-th, until a packet has waited for less.
// Applied in egress, which is where a packet leaves its queue; one state for every queue of a port.
//
//   waited < target, or at most `least_depth` behind it ─► good queue: nothing is due for at least an interval
//   else, for an interval ─┬─ the first, or codel_next is reached ─► due: dropped, marked CE, or Source Quench
//                          └─ else ─► forwarded
//
// Times are in 2^-16 us, so that rounding to v1model's clock of whole us does not add up in the schedule. 1/sqrt(n) is
// the table `codel_law`, whose entries the controller computes: exact to 2^-24 up to n = 63, within 0.8 % above.
// All else is as in the RFC, except that its loop over the packets that one dequeue drops is one pass per packet
// here: the effect of a drop on the schedule depends on the packet behind it (CODEL_DROPPED).

#ifndef CODEL_P4
#define CODEL_P4

#include "headers.p4"

// Reaction to a packet that is due; 0: it is dropped.
const bit<2> CODEL_MARKS = 1;       // it gets CE, or is dropped if it cannot be marked (RFC 3168, section 5)
const bit<2> CODEL_QUENCHES = 2;    // nothing, but source_quench.p4 notifies its sender
const bit<2> CODEL_ONLY_MARKS = 3;  // it gets CE, or nothing if it cannot be marked

// The state of a queue.
const bit<8> CODEL_GOOD = 0;        // not dropping
const bit<8> CODEL_DROPPING = 1;
const bit<8> CODEL_DROPPED = 2;     // the same, and the packet before was due: codel_next is to advance

control Codel(inout headers_t hdr, inout metadata_t meta, in standard_metadata_t standard_metadata) {

    // By output port and queue. Names of the RFC in brackets.
    register<bit<64>>(PORTS * QUEUES) codel_above;         // when the queue is bad; 0: it is good [first_above_time_]
    register<bit<64>>(PORTS * QUEUES) codel_next;          // when the next packet is due [drop_next_]
    register<bit<16>>(PORTS * QUEUES) codel_count;         // packets due since it went bad [count_]
    register<bit<16>>(PORTS * QUEUES) codel_last_count;    // codel_count when it went bad [lastcount_]
    register<bit<8>>(PORTS * QUEUES)  codel_state;         // [dropping_]
    @brief("packets marked CE because those of their queue have waited for too long")
    counter(PORTS, CounterType.packets_and_bytes) codel_marked;

    bool     enabled = false;
    bit<32>  target = 0;
    bit<32>  interval = 0;
    bit<19>  behind = 0;
    bit<2>   on_due = 0;
    bit<16>  count = 0;
    bit<32>  inverse_root = 0;

    action set_codel(bit<32> target_us,
                     bit<32> interval_us,
                     bit<19> least_depth,                  // most behind a packet of a good queue, in the switch's unit
                     bit<2> reaction) {
        enabled = true;
        target = target_us;
        interval = interval_us;
        behind = least_depth;
        on_due = reaction;
    }

    @brief("per port: target, interval, depth of a good queue; reaction: 0 drop, 1 mark, 2 Source Quench, 3 mark only")
    table codel {
        key = {
            standard_metadata.egress_port : exact @name("egress_port");   // 9 bits
        }
        actions = {
            set_codel;
            @defaultonly NoAction;
        }
        const default_action = NoAction();
        size = 512;
    }

    action set_inverse_root(bit<32> inverse) {             // 2^24 / sqrt(count)
        inverse_root = inverse;
    }

    @brief("2^24 / sqrt(count), for the time from one packet that is due to the next")
    table codel_law {
        key = {
            count : lpm @name("count");                    // 16 bits
        }
        actions = {
            set_inverse_root;
        }
        default_action = set_inverse_root(0x1000000);      // an interval
        size = 1024;
    }

    apply {
        // Copies that become Source Quench messages are exempt: they did not make the queue long.
        if (standard_metadata.instance_type != INSTANCE_EGRESS_CLONE) {
            codel.apply();
        }
        if (enabled) {
            bit<32> cell = (bit<32>)(standard_metadata.egress_port ++ standard_metadata.priority);
            bit<64> now = (bit<64>)standard_metadata.egress_global_timestamp << 16;
            bit<64> whole_interval = (bit<64>)interval << 16;
            bit<64> above;
            bit<64> next;
            bit<16> last_count;
            bit<8>  state;
            codel_above.read(above, cell);
            codel_next.read(next, cell);
            codel_count.read(count, cell);
            codel_last_count.read(last_count, cell);
            codel_state.read(state, cell);

            bool is_due = false;
            if (standard_metadata.deq_timedelta < target || standard_metadata.deq_qdepth <= behind) {
                above = 0;
                state = CODEL_GOOD;
            } else if (above == 0) {
                above = now + whole_interval;
                state = CODEL_GOOD;
            } else if (now < above) {
                state = CODEL_GOOD;
            } else {
                bool goes_bad = state == CODEL_GOOD;
                if (goes_bad) {
                    // The rate of drops is resumed if the last one was due less than 16 intervals ago.
                    bit<16> since = count - last_count;
                    count = since > 1 && now < next + (whole_interval << 4) ? since : 1;
                    last_count = count;
                    next = now;
                }
                if (state != CODEL_DROPPING) {
                    codel_law.apply();
                    next = next + ((bit<64>)interval * (bit<64>)inverse_root >> 8);
                    state = CODEL_DROPPING;
                }
                if (goes_bad) {
                    is_due = true;
                } else if (now >= next) {
                    is_due = true;
                    count = count |+| 1;
                    state = CODEL_DROPPED;
                }
            }
            codel_above.write(cell, above);
            codel_next.write(cell, next);
            codel_count.write(cell, count);
            codel_last_count.write(cell, last_count);
            codel_state.write(cell, state);

            if (is_due) {
                bool marks = on_due == CODEL_MARKS || on_due == CODEL_ONLY_MARKS;
                if (on_due == CODEL_QUENCHES) {
                    meta.quench = 1;
                } else if (marks && hdr.ipv4.isValid() && hdr.ipv4.ecn != 0) {                   // 0: Not-ECT
                    hdr.ipv4.ecn = ECN_CE;
                    codel_marked.count((bit<32>)standard_metadata.egress_port);
                } else if (on_due != CODEL_ONLY_MARKS) {
                    meta.drop_reason = DropReason.CODEL;
                }
            }
        }
    }
}

#endif
