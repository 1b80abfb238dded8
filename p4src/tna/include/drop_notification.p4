// SPDX-License-Identifier: Apache-2.0
//
// Drop notifications of FastLane, as ../../include/drop_notification.p4: a TCP packet that does not fit into its queue
// becomes a message to its sender. Applied in ingress to TCP packets, before trimming: deflected ones may become
// messages, which are not routed; all others get meta.notifiable if they are to come back when their queue is full.
//
// The mirror session has cut the packet to the size of `trimming`, not after the TCP header, because a session has one
// length; so the message may still have some bytes of payload. `notification_class` is not here, as no packet is
// dropped because its total length exceeds its frame (validity.p4).

#ifndef TNA_DROP_NOTIFICATION_P4
#define TNA_DROP_NOTIFICATION_P4

#include "headers.p4"

control DropNotification(inout headers_t hdr,
                         inout metadata_t meta,
                         inout ingress_intrinsic_metadata_for_tm_t ig_tm_md) {

    @brief("TCP packets turned into notifications, by the port that refused them")
    Counter<bit<64>, port_t>(PORTS, CounterType_t.PACKETS_AND_BYTES) notified;

    bit<6>  notification_dscp = 0;
    queue_t notification_queue = 0;
    mac_t   port_mac = 0;
    mac_t   neighbour_mac = 0;

    action set_notification(mac_t src_mac, mac_t dst_mac, bit<6> dscp_value, queue_t queue_index) {
        meta.notifiable = 1;
        port_mac = src_mac;
        neighbour_mac = dst_mac;
        notification_dscp = dscp_value;
        notification_queue = queue_index;
    }

    @brief("ports by which senders are told of drops, with the addresses of both ends of the link; no entry: off")
    table drop_notification {
        key = {
            meta.ingress_port : exact @name("ingress_port");         // 9 bits
        }
        actions = {
            set_notification;
            @defaultonly NoAction;
        }
        const default_action = NoAction();
        size = 512;
    }

    action notify() {
        ipv4_address_t sender = hdr.ipv4.src;
        hdr.ipv4.src = hdr.ipv4.dst;
        hdr.ipv4.dst = sender;
        hdr.ipv4.dscp = notification_dscp;
        hdr.ethernet.src = port_mac;
        hdr.ethernet.dst = neighbour_mac;
        ig_tm_md.ucast_egress_port = meta.ingress_port;
        meta.queue = notification_queue;
        meta.notified = 1;
        notified.count(meta.refused_port);
    }

    apply {
        drop_notification.apply();
        if (meta.refused == 1 && meta.notifiable == 1 && hdr.ipv4.dscp != notification_dscp
                && hdr.tcp.data_offset >= TCP_MINIMUM_WORDS
                && hdr.ipv4.dst[31:28] != CLASS_D && hdr.ipv4.src[31:28] != CLASS_D) {
            notify();
        }
    }
}

#endif
