// More branches than statements may be nested, in a control and in an action.
#include <core.p4>
#include <v1model.p4>

#define ONE(n) if (hdr.h.from == (n)) { hdr.h.to = (n) + 1; } else
#define FOUR(n) ONE(n) ONE((n) + 1) ONE((n) + 2) ONE((n) + 3)
#define SIXTEEN(n) FOUR(n) FOUR((n) + 4) FOUR((n) + 8) FOUR((n) + 12)
#define MANY(n) SIXTEEN(n) SIXTEEN((n) + 16) SIXTEEN((n) + 32) SIXTEEN((n) + 48)

header h_t {
    bit<8> from;
    bit<8> to;
}

struct headers_t {
    h_t h;
}

struct metadata_t {}

parser ParserImpl(packet_in packet, out headers_t hdr, inout metadata_t meta,
                  inout standard_metadata_t standard_metadata) {
    state start {
        packet.extract(hdr.h);
        transition accept;
    }
}

control verifyChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply {}
}

control ingress(inout headers_t hdr, inout metadata_t meta,
                inout standard_metadata_t standard_metadata) {
    action again() {
        MANY(0) MANY(64) MANY(128) { hdr.h.to = 0xff; }
    }
    apply {
        standard_metadata.egress_spec = 1;
        MANY(0) MANY(64) MANY(128) { hdr.h.to = 0xfe; }
        hdr.h.from = hdr.h.to;
        again();
    }
}

control egress(inout headers_t hdr, inout metadata_t meta,
               inout standard_metadata_t standard_metadata) {
    apply {}
}

control computeChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply {}
}

control DeparserImpl(packet_out packet, in headers_t hdr) {
    apply { packet.emit(hdr.h); }
}

V1Switch(ParserImpl(), verifyChecksum(), ingress(), egress(), computeChecksum(), DeparserImpl()) main;
