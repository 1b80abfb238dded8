// SPDX-License-Identifier: Apache-2.0
//
// Void frames (Silo, SIGCOMM 2015): a pacer sends them between the frames of a batch, so that these leave the NIC at
// their times. Their destination MAC address equals their source. The first switch drops them, at ports of hosts.
// Applied first in ingress, because the rest of a void frame has no meaning.

#ifndef VOID_FRAMES_P4
#define VOID_FRAMES_P4

#include "headers.p4"

control VoidFrames(in headers_t hdr, inout metadata_t meta, in standard_metadata_t standard_metadata) {
    @brief("void frames that came in and were dropped")
    counter(PORTS, CounterType.packets_and_bytes) void_in;

    action drop_void() {
        meta.drop_reason = DropReason.VOID_FRAME;
        void_in.count((bit<32>)standard_metadata.ingress_port);
    }

    @brief("ports at which frames to the address that they come from are dropped as void; no entry: as any other")
    table void_frames {
        key = {
            standard_metadata.ingress_port : exact @name("ingress_port");   // 9 bits
        }
        actions = {
            drop_void;
            @defaultonly NoAction;
        }
        const default_action = NoAction();
        size = 512;
    }

    apply {
        if (hdr.ethernet.src == hdr.ethernet.dst) {
            void_frames.apply();
        }
    }
}

#endif
