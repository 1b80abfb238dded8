// Switches by destination MAC address; what does not fit comes back as a deflection, is cut to 64
// bytes and goes to the queue of highest priority of the port it failed at.
#include <core.p4>
#include <v1model.p4>

header ethernet_t {
    bit<48> dst;
    bit<48> src;
    bit<16> ether_type;
}

struct headers_t {
    ethernet_t ethernet;
}

struct metadata_t {}

const bit<32> INSTANCE_DEFLECTED = 7;

parser ParserImpl(packet_in packet, out headers_t hdr, inout metadata_t meta,
                  inout standard_metadata_t standard_metadata) {
    state start {
        packet.extract(hdr.ethernet);
        transition accept;
    }
}

control VerifyImpl(inout headers_t hdr, inout metadata_t meta) { apply {} }

control IngressImpl(inout headers_t hdr, inout metadata_t meta,
                    inout standard_metadata_t standard_metadata) {
    action drop() { mark_to_drop(standard_metadata); }
    action forward(bit<9> port) { standard_metadata.egress_spec = port; }
    action multicast(bit<16> group) { standard_metadata.mcast_grp = group; }
    action trim() {
        standard_metadata.egress_spec = standard_metadata.egress_port;
        standard_metadata.priority = 7;
        truncate(64);
    }

    table dmac {
        key = { hdr.ethernet.dst: exact @name("dst"); }
        actions = { forward; multicast; drop; }
        default_action = drop();
        size = 64;
    }

    apply {
        if (standard_metadata.instance_type == INSTANCE_DEFLECTED) {
            trim();
        } else {
            dmac.apply();
        }
    }
}

control EgressImpl(inout headers_t hdr, inout metadata_t meta,
                   inout standard_metadata_t standard_metadata) { apply {} }

control ComputeImpl(inout headers_t hdr, inout metadata_t meta) { apply {} }

control DeparserImpl(packet_out packet, in headers_t hdr) {
    apply { packet.emit(hdr.ethernet); }
}

V1Switch(ParserImpl(), VerifyImpl(), IngressImpl(), EgressImpl(), ComputeImpl(), DeparserImpl()) main;
