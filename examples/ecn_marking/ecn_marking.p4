// Step marking as DCTCP asks for it: a packet that is ECN-capable and met more than K packets in its queue gets CE.
// K is a register, so that a controller changes it while packets flow.

#include <core.p4>
#include <v1model.p4>

struct metadata_t {}

#include "../include/ipv4.p4"

const bit<2> NOT_ECT = 0;
const bit<2> CE = 3;

control MarkingIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    action drop() {
        mark_to_drop(std);
    }
    action send(bit<9> port) {
        std.egress_spec = port;
    }
    table hosts {
        key = { hdr.ipv4.dst: exact; }
        actions = { send; @defaultonly drop; }
        default_action = drop();
    }

    apply {
        if (hdr.ipv4.isValid()) {
            hosts.apply();
        } else {
            drop();
        }
    }
}

control MarkingEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    // K in packets, for all ports.
    register<bit<19>>(1) threshold;
    counter(512, CounterType.packets) marked;

    apply {
        bit<19> k;
        threshold.read(k, 0);
        if (hdr.ipv4.isValid() && hdr.ipv4.ecn != NOT_ECT && std.enq_qdepth >= k) {
            hdr.ipv4.ecn = CE;
            marked.count((bit<32>)std.egress_port);
        }
    }
}

V1Switch(Parse(), Verify(), MarkingIngress(), MarkingEgress(), Update(), Deparse()) main;
