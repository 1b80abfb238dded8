// SPDX-License-Identifier: Apache-2.0
//
// Traffic volume, as ../../include/volume_counters.p4: bytes and packets that leave a port, per queue and time slot, in
// two banks of cells, each with the slot that it counts. Applied in egress, last.
//
// A stage has no multiplier, so slots last 2^n ns, with 16 <= n <= 28, and are named by the time at which they begin:
//
//   time := clock in units of 2^16 ns        32 bits, 78 hours
//   slot := time & slot_mask                 without its lower n - 16 bits
//   bank := time & bank_mask is not 0        bit n - 16
//
// A register can be read and written once by a packet, two numbers of 32 bits at a time: bytes and packets each have
// one, whose cells have the slot beside the count.

#ifndef TNA_VOLUME_COUNTERS_P4
#define TNA_VOLUME_COUNTERS_P4

#include "headers.p4"

typedef bit<13> volume_index_t;              // bank ++ output port ++ queue
const bit<32> VOLUME_CELLS = 8192;

struct volume_cell_t {
    bit<32> slot;                            // the slot that is counted
    bit<32> count;                           // stays at its maximum
}

control VolumeCounters(in egress_headers_t hdr,
                       inout egress_metadata_t meta,
                       in egress_intrinsic_metadata_t eg_intr_md,
                       in egress_intrinsic_metadata_from_parser_t eg_prsr_md) {

    Register<volume_cell_t, volume_index_t>(VOLUME_CELLS) volume_bytes;      // of frames without padding and FCS
    Register<volume_cell_t, volume_index_t>(VOLUME_CELLS) volume_packets;
    Hash<volume_index_t>(HashAlgorithm_t.IDENTITY) index;

    bit<1>         counted = 0;
    bit<32>        odd = 0;                  // not 0 in odd slots
    bit<1>         bank = 0;
    volume_index_t cell = 0;

    RegisterAction<volume_cell_t, volume_index_t, bit<32>>(volume_bytes) add_bytes = {
        void apply(inout volume_cell_t stored) {
            if (stored.slot == meta.slot) {
                stored.count = stored.count |+| meta.frame_bytes;
            } else {
                stored.count = meta.frame_bytes;
            }
            stored.slot = meta.slot;
        }
    };

    RegisterAction<volume_cell_t, volume_index_t, bit<32>>(volume_packets) add_packet = {
        void apply(inout volume_cell_t stored) {
            if (stored.slot == meta.slot) {
                stored.count = stored.count |+| 1;
            } else {
                stored.count = 1;
            }
            stored.slot = meta.slot;
        }
    };

    // Each is an action of its own, as the compiler would otherwise substitute expressions for variables.
    action read_clock() {
        meta.slot = eg_prsr_md.global_tstamp[47:16];
    }

    action measure() {
        meta.frame_bytes = (bit<32>)hdr.ipv4.total_length;
    }

    action add_ethernet() {
        meta.frame_bytes = meta.frame_bytes + (bit<32>)ETHERNET_BYTES;
    }

    action measure_arp() {
        meta.frame_bytes = (bit<32>)ETHERNET_BYTES + ARP_BYTES;
    }

    action choose_cell() {
        cell = index.get({ bank, eg_intr_md.egress_port, eg_intr_md.egress_qid[2:0] });
    }

    action count_in_slot(bit<32> slot_mask, bit<32> bank_mask) {
        odd = meta.slot & bank_mask;
        meta.slot = meta.slot & slot_mask;
        counted = 1;
    }

    @brief("length of the time slots in which what leaves a port is counted, as masks of the clock; default: off")
    table volume {
        actions = {
            count_in_slot;
            @defaultonly NoAction;
        }
        default_action = NoAction();
        size = 1;
    }

    apply {
        read_clock();
        if (hdr.ipv4.isValid()) {
            measure();
            add_ethernet();
        } else {
            measure_arp();
        }
        volume.apply();
        if (odd != 0) {
            bank = 1;
        }
        choose_cell();
        if (counted == 1) {
            add_bytes.execute(cell);
            add_packet.execute(cell);
        }
    }
}

#endif
