// Action profiles, a selector and a range.
#include <core.p4>
#include <v1model.p4>

header pair_t {
    bit<16> a;
    bit<16> b;
}

struct headers_t {
    pair_t pair;
}

struct metadata_t {}

parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    state start {
        packet.extract(hdr.pair);
        transition accept;
    }
}

control FromPort(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    action_profile(4) members;
    action_selector(HashAlgorithm.identity, 4, 16) groups;

    action forward(bit<9> port) {
        standard.egress_spec = port;
    }
    action mark(bit<16> b) {
        hdr.pair.b = b;
    }

    table port {
        key = { hdr.pair.a: exact; }
        actions = { forward; NoAction; }
        implementation = members;
    }
    table ecmp {
        key = { hdr.pair.a: range; hdr.pair.b: selector; }
        actions = { forward; NoAction; }
        implementation = groups;
    }
    table marking {
        key = { hdr.pair.a: range; }
        actions = { mark; NoAction; }
        default_action = mark(0xfeed);
    }

    apply {
        if (!port.apply().hit) {
            ecmp.apply();
        }
        marking.apply();
    }
}

control ToPort(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply {}
}

control Verify(inout headers_t hdr, inout metadata_t meta) {
    apply {}
}

control Update(inout headers_t hdr, inout metadata_t meta) {
    apply {}
}

control Deparse(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.pair);
    }
}

V1Switch(Parse(), Verify(), FromPort(), ToPort(), Update(), Deparse()) main;
