// `lookahead` of structs with headers, stacks and structs: all headers of the result are valid.
#include <core.p4>
#include <v1model.p4>

header one_t {
    bit<8> value;
}

header two_t {
    bit<4> high;
    bit<12> low;
}

struct inner_t {
    two_t two;
    bit<8> plain;
}

struct ahead_t {
    one_t one;
    inner_t inner;
    one_t[2] stack;
}

struct headers_t {
    one_t taken;
    two_t two;
    one_t copy;
    one_t[2] stack;
    one_t flags;
}

struct metadata_t {}

parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    state start {
        ahead_t ahead = packet.lookahead<ahead_t>();
        packet.extract(hdr.taken);
        hdr.two = ahead.inner.two;
        hdr.copy.setValid();
        hdr.copy.value = ahead.one.value + ahead.inner.plain;
        hdr.stack = ahead.stack;
        hdr.flags.setValid();
        hdr.flags.value = 0;
        if (ahead.one.isValid()) {
            hdr.flags.value = hdr.flags.value | 1;
        }
        if (ahead.inner.two.isValid()) {
            hdr.flags.value = hdr.flags.value | 2;
        }
        if (ahead.stack[0].isValid() && ahead.stack[1].isValid()) {
            hdr.flags.value = hdr.flags.value | 4;
        }
        transition accept;
    }
}

control FromPort(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply {
        standard.egress_spec = 1;
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
        packet.emit(hdr.taken);
        packet.emit(hdr.two);
        packet.emit(hdr.copy);
        packet.emit(hdr.stack);
        packet.emit(hdr.flags);
    }
}

V1Switch(Parse(), Verify(), FromPort(), ToPort(), Update(), Write()) main;
