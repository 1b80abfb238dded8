// SPDX-License-Identifier: Apache-2.0
//
// Traffic volume: bytes and packets that leave a port, per queue and time slot. Applied in egress, last, to packets
// that are not dropped: each goes onto the link, and counts for the slot in which its transmission starts.
//
// Slot n lasts from n * slot_us to (n + 1) * slot_us of v1model's clock. Cells come in two banks, of even and of odd
// slots, so the cells of a slot that is over do not change during the next one, and are read meanwhile. Each cell has
// the number of its slot. The first packet of a new slot writes that number first, then its own length, so if it is:
//
//   that of the slot, before and after the read ─► the bytes and packets are those of the slot
//   an earlier one ─► nothing has left in the slot
//   a later one ─► the reader was too late, and knows it
//
// P4 has no division by a variable: the slot is now * inverse >> shift, whose operands the controller computes such
// that it is exact for all 48 bits of the clock (T. Granlund, P. Montgomery, PLDI 1994, theorem 4.2). The product has
// up to 97 bits. It is the sum of products of halves, without its lowest 48 bits, so that no number is wider than 64
// bits: for wider ones ebb-switch has no native code, and they take as long as the rest of the program.

#ifndef VOLUME_COUNTERS_P4
#define VOLUME_COUNTERS_P4

#include "headers.p4"

// Halves of a number of 49 bits at most.
#define LOW(x) (x & 0xffffff)
#define HIGH(x) (x >> 24)

control VolumeCounters(in metadata_t meta, in standard_metadata_t standard_metadata) {

    // By bank, output port and queue.
    register<bit<64>>(2 * PORTS * QUEUES) volume_slot;       // number of the slot of the cell
    register<bit<64>>(2 * PORTS * QUEUES) volume_bytes;      // bytes of its frames, without FCS
    register<bit<64>>(2 * PORTS * QUEUES) volume_packets;

    // `shift` is at least 48.
    action count_in_slot(bit<64> inverse, bit<8> shift) {
        bit<64> now = (bit<64>)standard_metadata.egress_global_timestamp;
        bit<64> slot = (HIGH(now) * HIGH(inverse)
            + (HIGH(now) * LOW(inverse) + LOW(now) * HIGH(inverse) + (LOW(now) * LOW(inverse) >> 24) >> 24))
            >> (shift - 48);
        bit<32> cell = (bit<32>)(slot[0:0] ++ standard_metadata.egress_port ++ standard_metadata.priority);
        bit<64> named;
        bit<64> bytes;
        bit<64> packets;
        volume_slot.read(named, cell);
        volume_bytes.read(bytes, cell);
        volume_packets.read(packets, cell);
        if (named != slot) {
            volume_slot.write(cell, slot);
            bytes = 0;
            packets = 0;
        }
        volume_bytes.write(cell, bytes + (bit<64>)meta.frame_bytes);
        volume_packets.write(cell, packets + 1);
    }

    @brief("length of the time slots in which what leaves a port is counted: us * inverse >> shift; default: off")
    table volume {
        actions = {
            count_in_slot;
            @defaultonly NoAction;
        }
        default_action = NoAction();
    }

    apply {
        volume.apply();
    }
}

#undef LOW
#undef HIGH

#endif
