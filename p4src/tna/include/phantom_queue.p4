// SPDX-License-Identifier: Apache-2.0
//
// Phantom queue (HULL), as ../../include/phantom_queue.p4: a counter of the bytes that would be queued if the link ran
// at the drain rate. Applied in egress, last before the link.
//
//   drained := phantom_drain[drain rate, now - last]                      instead of the product: TNA has no multiplier
//   before  := max(0, backlog + length of the packet before - drained);   mark if before (+ length) > threshold
//
// `phantom_drain` has an entry per drain rate and interval of time. An interval is a prefix, 1/64 of the power of two
// that it lies above, and its entry has the bytes that drain until the middle of it; the controller makes the entries
// (ebb_controller.tna), docs/porting-tofino.md has the error. Clock readings have 32 bits, so the time since the last
// packet counts modulo 4.3 s.

#ifndef TNA_PHANTOM_QUEUE_P4
#define TNA_PHANTOM_QUEUE_P4

#include "headers.p4"

control PhantomQueue(inout egress_headers_t hdr,
                     inout egress_metadata_t meta,
                     in egress_intrinsic_metadata_t eg_intr_md,
                     in egress_intrinsic_metadata_from_parser_t eg_prsr_md) {

    Register<int<32>, port_t>(PORTS, 0) phantom_backlog;             // bytes, without the last packet
    Register<bit<32>, port_t>(PORTS, 0) phantom_updated;             // time of the last packet that left, in ns
    Register<bit<32>, port_t>(PORTS, 0) phantom_last;                // its length in bytes
    @brief("packets marked CE for the backlog of the phantom queue")
    Counter<bit<64>, port_t>(PORTS, CounterType_t.PACKETS_AND_BYTES) phantom_marked;

    bit<32> rate = 0;
    bit<32> threshold = 0xFFFFFFFF;
    bit<32> own = 0;                         // bytes of this packet that are compared, too
    bit<1>  with_own = 0;
    bit<32> last = 0;                        // time of the packet before, in ns
    bit<32> elapsed = 0;                     // ns
    bit<32> change = 0;                      // bytes of the packet before
    bit<32> drained = 0;                     // bytes
    bit<32> before = 0;
    bit<32> excess = 0;

    RegisterAction<bit<32>, port_t, bit<32>>(phantom_updated) exchange_time = {
        void apply(inout bit<32> stored, out bit<32> previous) {
            previous = stored;
            stored = meta.now;
        }
    };

    RegisterAction<bit<32>, port_t, bit<32>>(phantom_last) exchange_length = {
        void apply(inout bit<32> stored, out bit<32> previous) {
            previous = stored;
            stored = meta.frame_bytes;
        }
    };

    RegisterAction<int<32>, port_t, int<32>>(phantom_backlog) drain = {
        void apply(inout int<32> backlog, out int<32> left) {
            if (backlog + meta.delta > 0) {
                backlog = backlog + meta.delta;
            } else {
                backlog = 0;
            }
            left = backlog;
        }
    };

    action mark() {
        hdr.ipv4.ecn = ECN_CE;
        phantom_marked.count(eg_intr_md.egress_port);
    }

    action set_phantom_queue(bit<32> drain_bytes_per_65536_us,
                             bit<32> threshold_bytes,
                             bit<1> count_self) {
        rate = drain_bytes_per_65536_us;
        threshold = threshold_bytes;
        with_own = count_self;
    }

    @brief("drain rate in bytes per 2^16 us, and the backlog above which packets are marked")
    table phantom_queue {
        key = {
            eg_intr_md.egress_port : exact @name("egress_port");     // 9 bits
        }
        actions = {
            set_phantom_queue;
            @defaultonly NoAction;
        }
        const default_action = NoAction();
        size = 512;
    }

    action set_drained(bit<32> bytes) {
        drained = bytes;
    }

    @brief("bytes that a phantom queue drains in an interval of time, by its drain rate")
    table phantom_drain {
        key = {
            rate    : ternary @name("drain_bytes_per_65536_us");   // 32 bits
            elapsed : ternary @name("elapsed_ns");                 // 32 bits
        }
        actions = {
            set_drained;
            @defaultonly NoAction;
        }
        const default_action = NoAction();
        size = 4096;
    }

    // Each is an action of its own, as the compiler would otherwise substitute expressions for variables.
    action measure() {
        meta.now = eg_prsr_md.global_tstamp[31:0];
        meta.frame_bytes = (bit<32>)hdr.ipv4.total_length;
    }

    action add_ethernet() {
        meta.frame_bytes = meta.frame_bytes + (bit<32>)ETHERNET_BYTES;
    }

    action exchange() {
        last = exchange_time.execute(eg_intr_md.egress_port);
    }

    action since() {
        elapsed = meta.now - last;
        change = exchange_length.execute(eg_intr_md.egress_port);
    }

    action count_own() {
        own = meta.frame_bytes;
    }

    action subtract() {
        meta.delta = (int<32>)(change - drained);
    }

    action update() {
        before = (bit<32>)drain.execute(eg_intr_md.egress_port);
    }

    action add_own() {
        before = before + own;
    }

    action compare() {
        excess = before |-| threshold;
    }

    apply {
        if (phantom_queue.apply().hit) {
            measure();
            add_ethernet();
            exchange();
            since();
            if (with_own == 1) {
                count_own();
            }
            phantom_drain.apply();
            subtract();
            update();
            add_own();
            compare();
            if (excess != 0 && (hdr.ipv4.ecn == ECN_ECT0 || hdr.ipv4.ecn == ECN_ECT1)) {
                mark();
            }
        }
    }
}

#endif
