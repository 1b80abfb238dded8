// A load balancer in front of servers: packets to a virtual address go to one of a group, all of a flow to the same.
// Answers have the virtual address again.

#include <core.p4>
#include <v1model.p4>

struct metadata_t {}

#include "../include/ipv4.p4"

control BalancerIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    action_selector(HashAlgorithm.crc32, 64, 16) servers;

    action drop() {
        mark_to_drop(std);
    }
    action to_server(bit<32> server, bit<9> port) {
        hdr.ipv4.dst = server;
        std.egress_spec = port;
    }
    table services {
        key = {
            hdr.ipv4.dst: exact;
            hdr.ipv4.src: selector;
            hdr.ipv4.protocol: selector;
            hdr.ports.src: selector;
            hdr.ports.dst: selector;
        }
        actions = { to_server; @defaultonly NoAction; }
        implementation = servers;
    }

    action from_server(bit<32> service, bit<9> port) {
        hdr.ipv4.src = service;
        std.egress_spec = port;
    }
    table answers {
        key = { hdr.ipv4.src: exact; }
        actions = { from_server; @defaultonly drop; }
        default_action = drop();
    }

    apply {
        if (!hdr.ipv4.isValid() || !hdr.ports.isValid()) {
            drop();
        } else if (!services.apply().hit) {
            answers.apply();
        }
    }
}

V1Switch(Parse(), Verify(), BalancerIngress(), NoEgress(), Update(), Deparse()) main;
