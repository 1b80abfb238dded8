// SPDX-License-Identifier: Apache-2.0
//
// Common to the programs for v1model (this folder) and for Tofino (../tna): the formats of the headers, the constants
// that name protocol values, the types of ports and queues. The IPv4 header is not here, because only v1model reads its
// options, and neither is metadata, which is each program's own.

#ifndef PROTOCOLS_P4
#define PROTOCOLS_P4

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
const bit<4>  TCP_MINIMUM_WORDS = 5;    // the same in words of 32 bits, as data_offset counts
const bit<16> UDP_BYTES         = 8;
const bit<16> EBB_BYTES         = 48;   // the whole header, docs/wire-format.md

const bit<16> ARP_REQUEST = 1;      // RFC 826
const bit<16> ARP_REPLY   = 2;

const bit<4> CLASS_D = 0xE;        // 224.0.0.0/4

const bit<2> ECN_ECT1 = 1;         // RFC 3168, section 5; 0 is Not-ECT
const bit<2> ECN_ECT0 = 2;
const bit<2> ECN_CE   = 3;

const bit<4> EBB_VERSION = 1;
const bit<4> EBB_DATA    = 0;       // packet types of NDP and SCDP that carry payload
const bit<4> EBB_SYMBOL  = 1;

const bit<8> EBB_TRIMMED  = 0x04;   // flags: a switch cut the payload off
const bit<8> EBB_RETURNED = 0x80;   // a switch turned the header round to its sender

// How the packets of a class are spread over the shortest paths. 0: all packets of a flow take one.
const bit<2> SPRAY_PACKET   = 1;    // each takes one, by the entropy in its header or at random
const bit<2> SPRAY_ADAPTIVE = 2;    // each takes one where few bytes wait before it, see adaptive_routing.p4

// Who chooses the MLFQ level of the packets of a class. 0: nobody, they stay in the queue of the class.
const bit<2> MLFQ_SENDER = 1;
const bit<2> MLFQ_SWITCH = 2;

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

// The header of NDP, SCDP and Trevi; docs/wire-format.md has every field.
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

// Fields that name a flow besides addresses and protocol. All zero for fragments and protocols that are not parsed.
struct flow_t {
    bit<16> src_port;
    bit<16> dst_port;
    bit<32> session;               // of NDP, SCDP and Trevi; 0 for other protocols
    bit<1>  starts;                // the packet is a TCP segment with SYN
}

#endif
