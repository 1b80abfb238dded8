// The literal of an invalid header or union, wherever a value may stand.
#include <core.p4>
#include <v1model.p4>

header flags_t {
    bit<8> given;
    bit<8> found;
}

header one_t {
    bit<8> value;
}

header two_t {
    bit<16> value;
}

header_union either_t {
    one_t one;
    two_t two;
}

struct pair_t {
    one_t first;
    bit<8> second;
}

struct headers_t {
    flags_t flags;
    one_t one;
    either_t either;
}

struct metadata_t {}

parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    state start {
        packet.extract(hdr.flags);
        transition select(hdr.flags.given) {
            1: one;
            2: two;
            default: accept;
        }
    }
    state one {
        packet.extract(hdr.one);
        transition accept;
    }
    state two {
        packet.extract(hdr.either.two);
        transition accept;
    }
}

bool holds(in one_t any) {
    return any.isValid();
}

one_t nothing() {
    return (one_t) {#};
}

control FromPort(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    action look(in one_t any) {
        if (any.isValid()) {
            hdr.flags.found = hdr.flags.found | 0x80;
        }
    }
    apply {
        standard.egress_spec = 1;
        bit<8> found = 0;
        if (hdr.one == (one_t) {#}) {
            found = found | 1;
        }
        if ({#} != hdr.one) {
            found = found | 2;
        }
        if (hdr.either == (either_t) {#}) {
            found = found | 4;
        }
        pair_t pair = { (one_t) {#}, 5 };
        if (pair == { hdr.one, 5 }) {
            found = found | 8;
        }
        if (holds((one_t) {#}) || ((one_t) {#}).isValid()) {
            found = found | 0x10;
        }
        if (nothing() == hdr.one && hdr.one == { 7 }) {
            found = found | 0x20;
        }
        if (hdr.one == { 7 }) {
            found = found | 0x40;
        }
        hdr.flags.found = found;
        look((one_t) {#});
        if (hdr.flags.given == 2) {
            hdr.either = {#};
        }
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

control Write(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr);
    }
}

V1Switch(Parse(), Verify(), FromPort(), ToPort(), Update(), Write()) main;
