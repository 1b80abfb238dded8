// SPDX-License-Identifier: Apache-2.0
//
// A plain IPv4 router: longest prefix match, new MAC addresses, TTL and checksum. The smallest program of
// practical use; `make bench BENCH=forward` measures it beside BMv2.
//
//  parser ─ checksum verified ─ ipv4_route ─► queue ─ checksum computed ─► link
//
// Dropped: packets that are not IPv4, or have options, a wrong checksum, no route, or a TTL of 0 or 1 (RFC 1812,
// sections 5.2.1 and 5.3.1, without the ICMP messages).

#include <core.p4>
#include <v1model.p4>

const bit<16> ETHERTYPE_IPV4 = 0x0800;

error { OptionsNotSupported }

header ethernet_t {
    bit<48> dst;
    bit<48> src;
    bit<16> type;
}

header ipv4_t {
    bit<4>  version;
    bit<4>  ihl;
    bit<8>  type_of_service;
    bit<16> total_length;
    bit<16> identification;
    bit<3>  flags;
    bit<13> fragment_offset;
    bit<8>  ttl;
    bit<8>  protocol;
    bit<16> checksum;
    bit<32> src;
    bit<32> dst;
}

struct headers_t {
    ethernet_t ethernet;
    ipv4_t     ipv4;
}

struct metadata_t {}

parser RouterParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
                    inout standard_metadata_t standard_metadata) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.type) {
            ETHERTYPE_IPV4: ipv4;
            default: accept;
        }
    }

    state ipv4 {
        packet.extract(hdr.ipv4);
        verify(hdr.ipv4.version == 4 && hdr.ipv4.ihl == 5, error.OptionsNotSupported);
        transition accept;
    }
}

#define IPV4_CHECKSUM_INPUT { \
    hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.type_of_service, hdr.ipv4.total_length, hdr.ipv4.identification, \
    hdr.ipv4.flags, hdr.ipv4.fragment_offset, hdr.ipv4.ttl, hdr.ipv4.protocol, hdr.ipv4.src, hdr.ipv4.dst }

control VerifyIpv4(inout headers_t hdr, inout metadata_t meta) {
    apply {
        verify_checksum(hdr.ipv4.isValid(), IPV4_CHECKSUM_INPUT, hdr.ipv4.checksum, HashAlgorithm.csum16);
    }
}

control Router(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {

    action drop() {
        mark_to_drop(standard_metadata);
    }

    action set_next_hop(bit<9> port, bit<48> src_mac, bit<48> dst_mac) {
        standard_metadata.egress_spec = port;
        hdr.ethernet.src = src_mac;
        hdr.ethernet.dst = dst_mac;
        hdr.ipv4.ttl = hdr.ipv4.ttl - 1;
    }

    table ipv4_route {
        key = {
            hdr.ipv4.dst : lpm @name("dst");
        }
        actions = {
            set_next_hop;
            drop;
        }
        default_action = drop();
        size = 16384;
    }

    apply {
        if (hdr.ipv4.isValid() && standard_metadata.parser_error == error.NoError
                && standard_metadata.checksum_error == 0 && hdr.ipv4.ttl > 1) {
            ipv4_route.apply();
        } else {
            drop();
        }
    }
}

control Link(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    apply {}
}

control UpdateIpv4(inout headers_t hdr, inout metadata_t meta) {
    apply {
        update_checksum(hdr.ipv4.isValid(), IPV4_CHECKSUM_INPUT, hdr.ipv4.checksum, HashAlgorithm.csum16);
    }
}

control RouterDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.ethernet);
        packet.emit(hdr.ipv4);
    }
}

V1Switch(RouterParser(), VerifyIpv4(), Router(), Link(), UpdateIpv4(), RouterDeparser()) main;
