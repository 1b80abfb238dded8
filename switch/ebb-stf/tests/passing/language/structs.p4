// `select` on structs, and slices that start where a field says.
#include <core.p4>
#include <v1model.p4>

struct pair_t {
    bit<8> first;
    bit<8> second;
}

struct nested_t {
    pair_t pair;
    bool flag;
}

const pair_t NINES = { first = 9, second = 9 };

header h_t {
    bit<8> a;
    bit<8> b;
    bit<8> found;
    bit<8> start;
    bit<32> value;
    bit<8> read;
}

struct headers_t {
    h_t h;
}

struct metadata_t {}

struct learned_t {
    bit<8> a;
    bit<8> constant;
}

parser ParserImpl(packet_in packet, out headers_t hdr, inout metadata_t meta,
                  inout standard_metadata_t standard_metadata) {
    nested_t nested;
    state start {
        packet.extract(hdr.h);
        nested = { { hdr.h.a, hdr.h.b }, hdr.h.start == 0 };
        transition select(nested.pair) {
            NINES: nines;
            { 1, 2 }: in_order;
            { second = 3, first = 7 }: by_name;
            (4 &&& 0xfc, 4): in_order;
            _: whole;
        }
    }
    state nines {
        hdr.h.found = 0x99;
        transition accept;
    }
    state in_order {
        hdr.h.found = 0x12;
        transition accept;
    }
    state by_name {
        hdr.h.found = 0x43;
        transition accept;
    }
    state whole {
        transition select(nested, (pair_t) { first = hdr.h.found, second = 0 }) {
            ({ { 8, _ }, true }, _): flagged;
            ({ _, false }, { 7, _ }): seven;
            default: accept;
        }
    }
    state flagged {
        hdr.h.found = 0xf1;
        transition accept;
    }
    state seven {
        hdr.h.found = 0x77;
        transition accept;
    }
}

control VerifyImpl(inout headers_t hdr, inout metadata_t meta) { apply {} }

control IngressImpl(inout headers_t hdr, inout metadata_t meta,
                    inout standard_metadata_t standard_metadata) {
    apply {
        standard_metadata.egress_spec = 1;
        hdr.h.read = hdr.h.value[hdr.h.start +: 8];
        hdr.h.value[hdr.h.start +: 4] = 0xf;
        hdr.h.value[hdr.h.start + 4 +: 4] += 1;
        int<16> negative = -1;
        negative[hdr.h.start +: 4] = 0;
        if (negative >= 0) hdr.h.found = 0xee;
        digest<learned_t>(1, { hdr.h.a, 5 });
        digest(1, { hdr.h.b, 8w6 });
    }
}

control EgressImpl(inout headers_t hdr, inout metadata_t meta,
                   inout standard_metadata_t standard_metadata) { apply {} }

control ComputeImpl(inout headers_t hdr, inout metadata_t meta) { apply {} }

control DeparserImpl(packet_out packet, in headers_t hdr) {
    apply { packet.emit(hdr.h); }
}

V1Switch(ParserImpl(), VerifyImpl(), IngressImpl(), EgressImpl(), ComputeImpl(), DeparserImpl()) main;
