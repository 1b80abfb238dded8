// SPDX-License-Identifier: Apache-2.0
//
// Two large tables, for `make bench BENCH=writes`: what a controller writes there, not packets, is measured.
#include <core.p4>
#include <v1model.p4>

header ethernet_t {
    bit<48> dst;
    bit<48> src;
    bit<16> type;
}

header ipv4_t {
    bit<96> others;
    bit<32> src;
    bit<32> dst;
}

struct headers_t {
    ethernet_t ethernet;
    ipv4_t ipv4;
}

struct metadata_t { }

parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.type) {
            0x0800: ipv4;
            default: accept;
        }
    }
    state ipv4 {
        packet.extract(hdr.ipv4);
        transition accept;
    }
}

control Verify(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control MyIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    action drop() {
        mark_to_drop(standard);
    }
    action forward(bit<9> port) {
        standard.egress_spec = port;
    }
    action route(bit<9> port, bit<48> mac) {
        standard.egress_spec = port;
        hdr.ethernet.dst = mac;
    }
    table bridge {
        key = { hdr.ethernet.dst : exact @name("dst"); }
        actions = { forward; drop; }
        default_action = drop();
        size = 2000000;
    }
    table routes {
        key = { hdr.ipv4.dst : lpm @name("dst"); }
        actions = { route; drop; }
        default_action = drop();
        size = 2000000;
    }
    apply {
        if (hdr.ipv4.isValid()) {
            routes.apply();
        } else {
            bridge.apply();
        }
    }
}

control MyEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply { }
}

control Compute(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control Deparse(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.ethernet);
        packet.emit(hdr.ipv4);
    }
}

V1Switch(Parse(), Verify(), MyIngress(), MyEgress(), Compute(), Deparse()) main;
