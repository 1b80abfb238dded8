// SPDX-License-Identifier: Apache-2.0
//
// Void frames (Silo, SIGCOMM 2015): what a pacer sends between the frames of a batch, so that these leave the NIC at
// their times. A frame to the address that it comes from is one. The first switch drops them, at the ports of hosts.
// Applied in ingress, first: nothing else in them means anything.

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
