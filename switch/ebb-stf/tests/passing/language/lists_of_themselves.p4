// Lists that read what they are assigned to: all of it is read before anything is written.
#include <core.p4>
#include <v1model.p4>

header h_t {
    bit<8> a;
    bit<8> b;
}

struct inner_t {
    bit<8> x;
    bit<8> y;
}

struct outer_t {
    inner_t p;
    inner_t q;
}

struct headers_t {
    h_t[2] stack;
    h_t first;
    h_t second;
    h_t valid;
}

struct metadata_t {
    outer_t outer;
}

parser ParserImpl(packet_in packet, out headers_t hdr, inout metadata_t meta,
                  inout standard_metadata_t standard_metadata) {
    state start {
        packet.extract(hdr.first);
        transition select(hdr.first.a) {
            1: more;
            default: accept;
        }
    }
    state more {
        packet.extract(hdr.second);
        transition accept;
    }
}

control VerifyImpl(inout headers_t hdr, inout metadata_t meta) { apply {} }

control IngressImpl(inout headers_t hdr, inout metadata_t meta,
                    inout standard_metadata_t standard_metadata) {
    apply {
        standard_metadata.egress_spec = 1;
        meta.outer = { { hdr.first.a, 1 }, { hdr.first.b, 2 } };
        // Structs, and parts of them, change places.
        meta.outer = { meta.outer.q, meta.outer.p };
        meta.outer = { { meta.outer.q.x, meta.outer.p.y }, { meta.outer.p.x, meta.outer.q.y } };
        // The validity is that before the assignment.
        hdr.valid = { (bit<8>)(bit<1>)hdr.valid.isValid(), meta.outer.p.y };
        hdr.valid = { (bit<8>)(bit<1>)hdr.valid.isValid() + 4, hdr.valid.a };
        // Headers change places, one of which may be invalid.
        hdr.stack = { { hdr.first.b, hdr.first.a }, hdr.second };
        hdr.stack = { hdr.stack[1], hdr.stack[0] };
        hdr = { hdr.stack, hdr.second, hdr.first, hdr.valid };
    }
}

control EgressImpl(inout headers_t hdr, inout metadata_t meta,
                   inout standard_metadata_t standard_metadata) { apply {} }

control ComputeImpl(inout headers_t hdr, inout metadata_t meta) { apply {} }

control DeparserImpl(packet_out packet, in headers_t hdr) {
    apply { packet.emit(hdr); }
}

V1Switch(ParserImpl(), VerifyImpl(), IngressImpl(), EgressImpl(), ComputeImpl(), DeparserImpl()) main;
