// An instance of a control that is applied at two places has the same tables at both, which see the arguments of the
// place where it is applied.
#include <core.p4>
#include <v1model.p4>

header probe_t {
    bit<8> kind;
    bit<8> a;
    bit<8> b;
    bit<8> answer;
}

struct headers_t {
    probe_t probe;
}

struct metadata_t {}

parser ParserImpl(packet_in packet, out headers_t hdr, inout metadata_t meta,
                  inout standard_metadata_t standard_metadata) {
    state start {
        packet.extract(hdr.probe);
        transition accept;
    }
}

control VerifyImpl(inout headers_t hdr, inout metadata_t meta) { apply {} }

control lookup(in bit<8> key, in bit<8> value, inout bit<8> answer) {
    bit<8> next = value + 1;
    action put() { answer = next << 4 | value; }
    action flip() { answer = ~value; }
    table known {
        key = { key : exact; }
        actions = { put; flip; }
        const default_action = put();
        const entries = { 7 : flip(); }
    }
    apply { known.apply(); }
}

// Has no table of its own.
control around(in bit<8> value, inout bit<8> answer) {
    lookup() inner;
    bit<8> more = value + 2;
    apply { inner.apply(more, value, answer); }
}

control IngressImpl(inout headers_t hdr, inout metadata_t meta,
                    inout standard_metadata_t standard_metadata) {
    lookup() look;
    around() outer;
    apply {
        standard_metadata.egress_spec = 1;
        if (hdr.probe.kind == 0) {
            look.apply(hdr.probe.a, hdr.probe.b, hdr.probe.answer);
        } else if (hdr.probe.kind == 1) {
            look.apply(hdr.probe.b, hdr.probe.a, hdr.probe.answer);
        } else if (hdr.probe.kind == 2) {
            outer.apply(hdr.probe.a, hdr.probe.answer);
        } else {
            outer.apply(hdr.probe.b, hdr.probe.answer);
        }
    }
}

control EgressImpl(inout headers_t hdr, inout metadata_t meta,
                   inout standard_metadata_t standard_metadata) {
    apply {}
}

control ComputeImpl(inout headers_t hdr, inout metadata_t meta) { apply {} }

control DeparserImpl(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr);
    }
}

V1Switch(ParserImpl(), VerifyImpl(), IngressImpl(), EgressImpl(), ComputeImpl(), DeparserImpl()) main;
