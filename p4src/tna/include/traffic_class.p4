// SPDX-License-Identifier: Apache-2.0
//
// DSCP decides how a packet is treated, as in ../../include/traffic_class.p4. Applied in ingress to IPv4, before mlfq,
// route and trimming.

#ifndef TNA_TRAFFIC_CLASS_P4
#define TNA_TRAFFIC_CLASS_P4

#include "headers.p4"

control TrafficClass(in headers_t hdr, inout metadata_t meta) {

    action set_traffic_class(queue_t queue, bit<2> spray, bit<1> trimmable, bit<2> mlfq) {
        meta.queue = queue;
        meta.spray = spray;
        meta.trimmable = trimmable;
        meta.mlfq = mlfq;
    }

    @brief("per class: queue; spray 0 flow, 1 packet, 2 adaptive; trim eligibility; mlfq 0 off, 1 sender, 2 in-switch")
    table traffic_class {
        key = {
            hdr.ipv4.dscp : exact @name("dscp");             // 6 bits
        }
        actions = {
            set_traffic_class;
        }
        default_action = set_traffic_class(0, 0, 0, 0);      // lowest queue, one path per flow, never trimmed
        size = 64;
    }

    apply {
        traffic_class.apply();
    }
}

#endif
