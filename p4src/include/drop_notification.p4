// SPDX-License-Identifier: Apache-2.0
//
// Drop notifications of FastLane (Zats, UC Berkeley 2014, sections 6.5.1 to 6.5.3): a TCP packet that does not fit into
// its queue becomes a message to its sender, which thus learns within a round trip which packet was lost. SAI calls
// this DROP_AND_TRIM_TO_SENDER. Applied in ingress to packets that a queue has refused, before trimming.
//
//   refused ─┬─ no TCP, to or from a group, a notification itself, no entry ─► left to trimming
//            └─ else ─► IPv4 addresses swapped, DSCP set, cut after the TCP header,
//                       out of the port that it came in by, in the queue of the notifications
//
// The IPv4 total length stays, because with it the sender knows how many bytes were lost; ports, sequence number and
// flags stay, and so does the TCP checksum, which the swap does not change and the cut makes useless. So the
// total length exceeds the frame, which validity.p4 accepts in the classes of `notification_class` only: every switch
// on the way has them.
//
// The traffic manager keeps notifications to a share of the link and of the buffer (docs/drop-notification.md). Where
// it has no shares (stock BMv2) the program meters them, in packets: those within the share of their port
// (`notification_share`) go first, the others after all else. `due` is the time at which the next one would arrive if
// they came at exactly that rate (theoretical arrival time; virtual scheduling algorithm of ITU-T I.371):
//
//   due - now > burst ─► lowest queue, else ─► queue of the notifications, due := max(due, now) + interval

#ifndef DROP_NOTIFICATION_P4
#define DROP_NOTIFICATION_P4

#include "headers.p4"
#include "multicast.p4"

control DropNotification(inout headers_t hdr,
                         inout metadata_t meta,
                         inout standard_metadata_t standard_metadata) {

    @brief("TCP packets turned into notifications, by the port that refused them")
    counter(PORTS, CounterType.packets_and_bytes) notified;

    register<bit<48>>(PORTS) notification_due;               // `due`, us

    bool    enabled = false;
    bit<6>  notification_dscp = 0;
    queue_t notification_queue = 0;
    mac_t   port_mac = 0;
    mac_t   neighbour_mac = 0;

    action set_notification(mac_t src_mac, mac_t dst_mac, bit<6> dscp_value, queue_t queue_index) {
        enabled = true;
        port_mac = src_mac;
        neighbour_mac = dst_mac;
        notification_dscp = dscp_value;
        notification_queue = queue_index;
    }

    @brief("ports by which senders are notified of drops, with the addresses of both ends of the link; no entry: off")
    table drop_notification {
        key = {
            standard_metadata.ingress_port : exact @name("ingress_port");   // 9 bits
        }
        actions = {
            set_notification;
            @defaultonly NoAction;
        }
        const default_action = NoAction();
        size = 512;
    }

    action set_notification_share(bit<48> interval_us, bit<48> burst_us) {
        bit<48> now = standard_metadata.ingress_global_timestamp;
        bit<48> due;
        notification_due.read(due, (bit<32>)standard_metadata.ingress_port);
        bool    within = due <= now + burst_us;
        bit<48> next = (due > now ? due : now) + interval_us;
        notification_due.write((bit<32>)standard_metadata.ingress_port, within ? next : due);
        standard_metadata.priority = within ? notification_queue : 0;
    }

    @brief("us between notifications of a port in the long run, and at once; no entry: the traffic manager has shares")
    table notification_share {
        key = {
            standard_metadata.ingress_port : exact @name("ingress_port");   // 9 bits
        }
        actions = {
            set_notification_share;
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
        bit<32> header_bytes = (bit<32>)ETHERNET_BYTES + ((bit<32>)hdr.ipv4.ihl + (bit<32>)hdr.tcp.data_offset) * 4;
        meta.frame_bytes = header_bytes < meta.frame_bytes ? header_bytes : meta.frame_bytes;
        truncate(header_bytes);
        standard_metadata.egress_spec = standard_metadata.ingress_port;
        standard_metadata.priority = notification_queue;
        meta.refused = 0;
        notified.count((bit<32>)meta.refused_port);
    }

    apply {
        drop_notification.apply();
        if (enabled && hdr.ipv4.dscp != notification_dscp && hdr.tcp.data_offset >= TCP_MINIMUM_WORDS
                && hdr.ipv4.dst[31:28] != CLASS_D && hdr.ipv4.src[31:28] != CLASS_D) {
            notify();
            notification_share.apply();
        }
    }
}

#endif
