// SPDX-License-Identifier: Apache-2.0
//
// Void frames (Silo), as ../../include/void_frames.p4: the first switch drops frames whose destination MAC address
// equals their source, at ports of hosts. Applied in ingress after validity, whose reason it replaces: the rest of
// such a frame has no meaning.

#ifndef TNA_VOID_FRAMES_P4
#define TNA_VOID_FRAMES_P4

#include "headers.p4"

control VoidFrames(in headers_t hdr, inout metadata_t meta, in ingress_intrinsic_metadata_t ig_intr_md) {

    @brief("void frames that came in and were dropped")
    Counter<bit<64>, port_t>(PORTS, CounterType_t.PACKETS_AND_BYTES) void_in;

    // Halves of the difference of both addresses: a condition of Tofino compares 32 bits of two fields at most.
    bit<16> upper = 0;
    bit<32> lower = 0;

    action compare() {
        upper = hdr.ethernet.src[47:32] ^ hdr.ethernet.dst[47:32];
        lower = hdr.ethernet.src[31:0] ^ hdr.ethernet.dst[31:0];
    }

    action drop_void() {
        meta.drop_reason = DropReason.VOID_FRAME;
        void_in.count(ig_intr_md.ingress_port);
    }

    @brief("ports at which frames to the address that they come from are dropped as void; no entry: as any other")
    table void_frames {
        key = {
            ig_intr_md.ingress_port : exact @name("ingress_port");   // 9 bits
        }
        actions = {
            drop_void;
            @defaultonly NoAction;
        }
        const default_action = NoAction();
        size = 512;
    }

    apply {
        compare();
        if (upper == 0) {
            if (lower == 0) {
                void_frames.apply();
            }
        }
    }
}

#endif
