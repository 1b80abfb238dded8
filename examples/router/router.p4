// A router: the longest prefix decides about port and next hop, the TTL falls, and each route counts its packets.

#include <core.p4>
#include <v1model.p4>

struct metadata_t {}

#include "../include/ipv4.p4"

control RouterIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    direct_counter(CounterType.packets_and_bytes) routed;

    action drop() {
        mark_to_drop(std);
    }
    action forward(bit<9> port, bit<48> next_hop) {
        std.egress_spec = port;
        hdr.ethernet.src = hdr.ethernet.dst;
        hdr.ethernet.dst = next_hop;
        hdr.ipv4.ttl = hdr.ipv4.ttl - 1;
        routed.count();
    }
    table routes {
        key = { hdr.ipv4.dst: lpm; }
        actions = { forward; @defaultonly drop; }
        default_action = drop();
        counters = routed;
        size = 1024;
    }

    apply {
        if (hdr.ipv4.isValid() && hdr.ipv4.ttl > 1 && std.checksum_error == 0) {
            routes.apply();
        } else {
            drop();
        }
    }
}

V1Switch(Parse(), Verify(), RouterIngress(), NoEgress(), Update(), Deparse()) main;
