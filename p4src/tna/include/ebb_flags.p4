// SPDX-License-Identifier: Apache-2.0
//
// Sets flags in the Ebb header, and its checksum with them, to the same bytes as ../../include/ebb_flags.p4. Applied in
// ingress, after the blocks that ask for it by meta.ebb_change.
//
// The checksum is the one's complement of a one's complement sum (RFC 1624): setting a bit takes its weight away from
// it, and one more if that goes below zero. Flags that are set already take nothing.

#ifndef TNA_EBB_FLAGS_P4
#define TNA_EBB_FLAGS_P4

#include "headers.p4"

const bit<2> EBB_CHANGE_TRIMMED  = 1;        // sets TRIMMED
const bit<2> EBB_CHANGE_RETURNED = 2;        // sets TRIMMED and RETURNED, which is clear

control EbbFlags(inout headers_t hdr, in metadata_t meta) {

    action set_flags(bit<16> difference, bit<8> flags) {
        hdr.ebb.checksum = hdr.ebb.checksum + difference;    // modulo 2^16: 0xFFFC is -4
        hdr.ebb.flags = hdr.ebb.flags | flags;
    }

    @brief("flags to set, and what that adds to the checksum")
    table ebb_flags {
        key = {
            meta.ebb_change    : exact @name("change");
            hdr.ebb.flags[2:2] : exact @name("trimmed");     // EBB_TRIMMED
            hdr.ebb.checksum   : range @name("checksum");
        }
        actions = {
            set_flags;
            NoAction;
        }
        const entries = {
            (EBB_CHANGE_TRIMMED,  0, 0..0x03) : set_flags(0xFFFB, EBB_TRIMMED);
            (EBB_CHANGE_TRIMMED,  0, _)       : set_flags(0xFFFC, EBB_TRIMMED);
            (EBB_CHANGE_RETURNED, 0, 0..0x83) : set_flags(0xFF7B, EBB_TRIMMED | EBB_RETURNED);
            (EBB_CHANGE_RETURNED, 0, _)       : set_flags(0xFF7C, EBB_TRIMMED | EBB_RETURNED);
            (EBB_CHANGE_RETURNED, 1, 0..0x7F) : set_flags(0xFF7F, EBB_TRIMMED | EBB_RETURNED);
            (EBB_CHANGE_RETURNED, 1, _)       : set_flags(0xFF80, EBB_TRIMMED | EBB_RETURNED);
        }
        const default_action = NoAction();
        size = 8;
    }

    apply {
        if (hdr.ebb.isValid()) {
            ebb_flags.apply();
        }
    }
}

#endif
