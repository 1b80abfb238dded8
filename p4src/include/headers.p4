// SPDX-License-Identifier: Apache-2.0
//
// The headers of a packet and the program's metadata, on v1model; protocols.p4 has what other architectures share.

#ifndef HEADERS_P4
#define HEADERS_P4

#include "drop_reason.p4"
#include "protocols.p4"

// standard_metadata.instance_type. BMv2 uses 0 to 6; 7 is a packet that did not fit into its queue and
// comes back to ingress (docs/architecture.md, "Data path of one switch").
const bit<32> INSTANCE_DEFLECTED = 7;
#ifdef FABRIC_CODEL
const bit<32> INSTANCE_EGRESS_CLONE = 2;
#endif

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
    varbit<320>    options;
}

#ifdef FABRIC_CODEL
// IPv4 without options, of packets that the switch makes.
header plain_ipv4_t {
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

header icmp_t {                    // RFC 792; the messages with an unused word and a quotation
    bit<8>  type;
    bit<8>  code;
    bit<16> checksum;
    bit<32> unused;
}
#endif

struct headers_t {
    ethernet_t   ethernet;
    arp_t        arp;
#ifdef FABRIC_CODEL
    plain_ipv4_t message;          // an ICMP message, whose quotation begins with `ipv4`
    icmp_t       icmp;
#endif
    ipv4_t       ipv4;
    tcp_t        tcp;
    udp_t        udp;
    ebb_t        ebb;
}

// The program's own data; v1model's targets set all of it to 0 when a packet arrives, and keep it to the end of egress.
struct metadata_t {
    DropReason drop_reason;
    bit<32>    frame_bytes;        // length of the frame in bytes, after any trim; without FCS
    bit<16>    l4_bytes;           // length of the IPv4 payload in bytes
    flow_t     flow;
    bit<32>    flow_hash;          // set by flow_hash.p4

    bit<2>     spray;              // how the packets of the class are spread over paths, SPRAY_*
    bit<1>     trimmable;          // packets of the class may lose their payload
    bit<2>     mlfq;               // choice of the MLFQ level in this class, MLFQ_*

    bit<1>     demoted;            // the MLFQ of this switch gave it a level below the top one
    bit<1>     occupying;          // its bytes are in the register of occupancy.p4
    bit<1>     accounted;          // the program has counted its bytes in the register of queue_state.p4
    bit<1>     refused;            // it does not fit into the data queue of `refused_port`
    port_t     refused_port;
    bit<1>     trimmed;            // it goes through the trim queue, cut or whole
#ifdef FABRIC_CODEL
    bit<1>     quench;             // its sender is to be notified of a queue that is slow for too long
#endif
}

#endif
