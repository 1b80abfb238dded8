// SPDX-License-Identifier: Apache-2.0
//
// The headers of a packet and the program's metadata, on Tofino; ../../include/protocols.p4 has what v1model shares.
// Metadata does not go with a packet from ingress to egress: what egress needs is in a header in front of it.

#ifndef TNA_HEADERS_P4
#define TNA_HEADERS_P4

#include "../../include/drop_reason.p4"
#include "../../include/protocols.p4"

const bit<32> FCS_BYTES = 4;
const bit<32> ARP_BYTES = 28;

header ipv4_t {
    bit<4>         version;
    bit<4>         ihl;
    bit<6>         dscp;
    bit<2>         ecn;
    bit<16>        total_length;
    bit<16>        identification;
    bit<1>         reserved;
    bit<1>         dont_fragment;
    bit<1>         more_fragments;
    bit<13>        fragment_offset;
    bit<8>         ttl;
    bit<8>         protocol;
    bit<16>        checksum;
    ipv4_address_t src;
    ipv4_address_t dst;
}

// The first byte in front of a packet that egress gets says which of the next two headers it has.
const bit<8> KIND_ROUTED    = 1;
const bit<8> KIND_DEFLECTED = 2;

// From ingress to egress. The compiler chooses the places of flexible fields: nothing else reads the header.
header routed_t {
    bit<8>           kind;          // KIND_ROUTED
    @flexible bit<1> refused;       // ingress has refused it: deflection.p4 treats it as if its queue had
    @flexible bit<1> trimmed;       // it goes through the trim queue, cut or whole
    @flexible bit<1> demoted;       // the MLFQ of this switch gave it a level below the top one
    @flexible port_t egress_port;   // the port that it was routed to, also where it leaves by the deflection port
    @flexible port_t ingress_port;  // the port that it came in by
}

// From the egress of the deflection port, by a mirror session and the recirculation port, to ingress.
header deflected_t {
    bit<8>          kind;          // KIND_DEFLECTED
    @padding bit<7> pad;
    port_t          refused_port;  // whose queue had no room for the packet
    @padding bit<7> pad2;
    port_t          ingress_port;  // as in routed_t
}

struct headers_t {
    routed_t    routed;
    deflected_t deflected;
    ethernet_t  ethernet;
    arp_t       arp;
    ipv4_t      ipv4;
    tcp_t       tcp;
    udp_t       udp;
    ebb_t       ebb;
}

// Egress looks into IPv4 at most.
struct egress_headers_t {
    routed_t    routed;
    deflected_t deflected;
    ethernet_t  ethernet;
    ipv4_t      ipv4;
}

struct metadata_t {
    DropReason drop_reason;
    bool       checksum_error;
    bit<16>    frame_bytes;        // length by the IPv4 header, without padding and FCS; ingress has no other
    flow_t     flow;
    bit<32>    flow_hash;          // set by flow_hash.p4
    bit<32>    path;               // input of the selector of route.p4
    bit<32>    counted_bytes;      // bytes that mlfq.p4 adds to those of the flow
    bit<1>     multicast;          // it goes to a group

    queue_t    queue;              // of the output port
    bit<2>     spray;              // how the packets of the class are spread over paths, SPRAY_*
    bit<1>     trimmable;          // packets of the class may lose their payload
    bit<2>     mlfq;               // choice of the MLFQ level in this class, MLFQ_*

    bit<1>     demoted;            // see routed_t
    bit<1>     refused;            // it did not fit into the data queue of `refused_port`
    port_t     refused_port;
    port_t     ingress_port;       // see routed_t
    bit<1>     trimmed;            // see routed_t
    bit<1>     returnable;         // its class may be turned round, see return_to_sender.p4
    bit<1>     notifiable;         // its sender may be notified of its drop, see drop_notification.p4
    bit<1>     notified;           // it has become a notification
    bit<2>     ebb_change;         // flags that ebb_flags.p4 sets, EBB_CHANGE_*
#if __TARGET_TOFINO__ == 2

    // For adaptive_routing.p4: thresholds in cells, the ports of the destination, and which of them are acceptable and
    // have fewer cells than the first threshold, than the second one.
    bit<32>    most_favoured_below;
    bit<32>    favoured_below;
    bit<8>     slots;
    bit<8>     most_favoured;
    bit<8>     favoured;
    port_t     port0;
    port_t     port1;
    port_t     port2;
    port_t     port3;
    port_t     port4;
    port_t     port5;
    port_t     port6;
    port_t     port7;
#endif
}

struct egress_metadata_t {
    bit<8>     kind;               // kind of the copy that a mirror session makes
    port_t     refused_port;
    port_t     ingress_port;
    MirrorId_t session;
    bit<32>    now;                // ns
    bit<32>    frame_bytes;        // as in ingress
    int<32>    delta;              // bytes that phantom_queue.p4 adds to the backlog
    bit<32>    slot;               // beginning of the time slot of volume_counters.p4, in units of 2^16 ns
}

#endif
