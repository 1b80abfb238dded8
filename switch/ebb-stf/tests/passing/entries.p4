// Keys of every kind and their priorities; what counts the packets.
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
    direct_counter(CounterType.packets_and_bytes) hits;
    counter(2, CounterType.bytes) by_port;

    action forward(bit<9> port, bit<16> b) {
        standard.egress_spec = port;
        hdr.pair.b = b;
        hits.count();
    }
    action drop() {
        mark_to_drop(standard);
        hits.count();
    }
    action mark(bit<16> b) {
        hdr.pair.b = b;
    }

    table by_prefix {
        key = { hdr.pair.a: lpm; }
        actions = { mark; NoAction; }
        default_action = NoAction();
    }
    table by_mask {
        key = { hdr.pair.a: ternary; hdr.pair.b: ternary; }
        actions = { forward; drop; }
        default_action = drop();
        counters = hits;
    }

    apply {
        by_port.count((bit<32>) standard.ingress_port);
        by_prefix.apply();
        by_mask.apply();
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
