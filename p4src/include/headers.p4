// SPDX-License-Identifier: Apache-2.0
//
// Headers, the program's metadata, and the constants that name protocol values.

#ifndef HEADERS_P4
#define HEADERS_P4

#include "drop_reason.p4"

typedef bit<9>  port_t;
typedef bit<3>  queue_t;
typedef bit<48> mac_t;
typedef bit<32> ipv4_address_t;

const bit<32> PORTS = 512;          // size of what is indexed by a port_t
const bit<32> QUEUES = 8;           // of a port; v1model's priority has 3 bits

const bit<16> ETHERTYPE_IPV4 = 0x0800;
const bit<16> ETHERTYPE_ARP  = 0x0806;

const bit<8> PROTOCOL_TCP = 6;
const bit<8> PROTOCOL_UDP = 17;
const bit<8> PROTOCOL_EBB = 253;   // RFC 3692: experimentation

const bit<16> ETHERNET_BYTES    = 14;   // the frame check sequence is not counted anywhere
const bit<16> TCP_MINIMUM_BYTES = 20;   // the header without options
const bit<16> UDP_BYTES         = 8;
const bit<16> EBB_BYTES         = 48;   // the whole header, docs/wire-format.md

const bit<2> ECN_ECT1 = 1;         // RFC 3168, section 5; 0 is Not-ECT
const bit<2> ECN_ECT0 = 2;
const bit<2> ECN_CE   = 3;

const bit<4> EBB_VERSION = 1;
const bit<4> EBB_DATA    = 0;       // packet types of NDP and SCDP that carry payload
const bit<4> EBB_SYMBOL  = 1;

const bit<8> EBB_TRIMMED  = 0x04;   // flags: a switch cut the payload off
const bit<8> EBB_RETURNED = 0x80;   // a switch turned the header round to its sender

// standard_metadata.instance_type. BMv2 uses 0 to 6; 7 is a packet that did not fit into its queue and
// comes back to ingress (docs/architecture.md, "Data path of one switch").
const bit<32> INSTANCE_DEFLECTED = 7;

// How the packets of a class are spread over the shortest paths. 0: all packets of a flow take one.
const bit<2> SPRAY_PACKET   = 1;    // each takes one, by the entropy in its header or at random
const bit<2> SPRAY_ADAPTIVE = 2;    // each takes one where few bytes wait before it, see adaptive_routing.p4

header ethernet_t {
    mac_t   dst;
    mac_t   src;
    bit<16> type;
}

header arp_t {                     // RFC 826, for IPv4 over Ethernet
    bit<16>        hardware_type;
    bit<16>        protocol_type;
    bit<8>         hardware_length;
    bit<8>         protocol_length;
    bit<16>        operation;
    mac_t          sender_mac;
    ipv4_address_t sender_ip;
    mac_t          target_mac;
    ipv4_address_t target_ip;
}

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

header tcp_t {
    bit<16> src_port;
    bit<16> dst_port;
    bit<32> sequence;
    bit<32> acknowledgement;
    bit<4>  data_offset;
    bit<4>  reserved;
    bit<8>  flags;                 // from the highest bit: CWR ECE URG ACK PSH RST SYN FIN
    bit<16> window;
    bit<16> checksum;
    bit<16> urgent;
}

header udp_t {
    bit<16> src_port;
    bit<16> dst_port;
    bit<16> length;
    bit<16> checksum;
}

// The header of NDP and SCDP; docs/wire-format.md has every field.
header ebb_t {
    bit<4>  version;
    bit<4>  type;
    bit<8>  flags;
    bit<8>  level;
    bit<4>  sender;
    bit<4>  senders;
    bit<16> src_port;
    bit<16> dst_port;
    bit<32> session;
    bit<32> block;
    bit<24> symbol;
    bit<8>  priority;              // at the receiver's pull queue; no switch looks at it
    bit<32> pull;
    bit<16> entropy;
    bit<16> checksum;
    bit<32> payload_crc;
    bit<64> object_length;
    bit<16> symbol_size;
    bit<16> block_symbols;
    bit<16> payload_length;
    bit<16> multicast_group;
}

struct headers_t {
    ethernet_t ethernet;
    arp_t      arp;
    ipv4_t     ipv4;
    tcp_t      tcp;
    udp_t      udp;
    ebb_t      ebb;
}

// What names a flow besides addresses and protocol. All zero for fragments and protocols that are not parsed.
struct flow_t {
    bit<16> src_port;
    bit<16> dst_port;
    bit<32> session;               // of NDP and SCDP; 0 for other protocols
    bit<1>  starts;                // the packet is a TCP segment with SYN
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
    bit<2>     mlfq;               // who chooses the MLFQ level in this class, see mlfq.p4

    bit<1>     demoted;            // the MLFQ of this switch gave it a level below the top one
    bit<1>     occupying;          // its bytes are in the register of occupancy.p4
    bit<1>     accounted;          // the program has counted its bytes in the register of queue_state.p4
    bit<1>     refused;            // it does not fit into the data queue of `refused_port`
    port_t     refused_port;
    bit<1>     trimmed;            // it goes through the trim queue, cut or whole
}

#endif
