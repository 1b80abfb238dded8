// SPDX-License-Identifier: Apache-2.0
//
// Answers ARP requests for the gateway addresses, as ../../include/arp.p4. Applied in ingress to ARP frames.

#ifndef TNA_ARP_P4
#define TNA_ARP_P4

#include "headers.p4"

control ArpResponder(inout headers_t hdr,
                     inout metadata_t meta,
                     in ingress_intrinsic_metadata_t ig_intr_md,
                     inout ingress_intrinsic_metadata_for_tm_t ig_tm_md) {

    action answer_arp(mac_t mac) {
        ipv4_address_t asked = hdr.arp.target_ip;
        hdr.arp.operation = ARP_REPLY;
        hdr.arp.target_mac = hdr.arp.sender_mac;
        hdr.arp.target_ip = hdr.arp.sender_ip;
        hdr.arp.sender_mac = mac;
        hdr.arp.sender_ip = asked;
        hdr.ethernet.dst = hdr.ethernet.src;
        hdr.ethernet.src = mac;
        ig_tm_md.ucast_egress_port = ig_intr_md.ingress_port;
    }

    action leave_unanswered() {
        meta.drop_reason = DropReason.ARP_UNANSWERED;
    }

    @brief("the gateway addresses, and the address at which the switch answers for them")
    table arp_responder {
        key = {
            hdr.arp.target_ip : exact @name("target");       // 32 bits
        }
        actions = {
            answer_arp;
            @defaultonly leave_unanswered;
        }
        const default_action = leave_unanswered();
        size = 1024;
    }

    apply {
        if (hdr.arp.operation == ARP_REQUEST) {
            arp_responder.apply();
        } else {
            leave_unanswered();
        }
    }
}

#endif
