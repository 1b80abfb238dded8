// Smaller parts of the language, each with a field of its own for the result.
#include <core.p4>
#include <v1model.p4>

#define SUM(first, ...) (first + add(__VA_ARGS__))

header h_t {
    bit<8> a;
    bit<8> b;
    bit<16> select_found;
    bit<8> slice;
    bit<8> sum;
    bit<8> named;
    bit<8> returned;
}

struct headers_t {
    h_t h;
}

struct metadata_t {}

bit<8> add(in bit<8> x, in bit<8> y) { return x + y; }
bit<8> add(in bit<8> x) { return x; }
bit<8> minus(in bit<8> from, in bit<8> what) { return from - what; }

parser ParserImpl(packet_in packet, out headers_t hdr, inout metadata_t meta,
                  inout standard_metadata_t standard_metadata) {
    tuple<bit<8>, tuple<bit<8>, bit<8>>> both;
    state start {
        packet.extract(hdr.h);
        both = { hdr.h.a, { hdr.h.b, hdr.h.slice } };
        transition select(both, hdr.h.sum) {
            ({ 1, { 2, 3 } }, 4): all;
            ({ 1, _ }, 0x40 &&& 0xf0): some;
            default: accept;
        }
    }
    state all {
        hdr.h.select_found = 0xaaaa;
        transition accept;
    }
    state some {
        transition select(both) {
            (_, { 9, 3 }): nine;
            (_, _): other;
        }
    }
    state nine {
        hdr.h.select_found = 0x9999;
        transition accept;
    }
    state other {
        hdr.h.select_found = 0x0001;
        transition accept;
    }
}

control VerifyImpl(inout headers_t hdr, inout metadata_t meta) { apply {} }

control Sub(inout bit<8> value) {
    action give_up() {
        value = 1;
        if (value == 1) return;
        value = 2;
    }
    apply {
        give_up();
        if (value == 1) {
            value = value + 5;
            return;
        }
        value = 99;
    }
}

control IngressImpl(inout headers_t hdr, inout metadata_t meta,
                    inout standard_metadata_t standard_metadata) {
    Sub() sub;
    apply {
        standard_metadata.egress_spec = 1;
        bit<16> wide = hdr.h.a ++ hdr.h.b;
        hdr.h.slice = wide[4+:8];
        wide[0+:4] = 0xf;
        hdr.h.sum = SUM(wide[7:0], 1, 2);
        hdr.h.named = minus(what = 1, from = 8);
        sub.apply(hdr.h.returned);
    }
}

control EgressImpl(inout headers_t hdr, inout metadata_t meta,
                   inout standard_metadata_t standard_metadata) { apply {} }

control ComputeImpl(inout headers_t hdr, inout metadata_t meta) { apply {} }

control DeparserImpl(packet_out packet, in headers_t hdr) {
    apply { packet.emit(hdr.h); }
}

V1Switch(ParserImpl(), VerifyImpl(), IngressImpl(), EgressImpl(), ComputeImpl(), DeparserImpl()) main;
