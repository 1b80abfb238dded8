// A register of cells wider than two machine words.
#include <core.p4>
#include <v1model.p4>

header h_t {
    bit<8> written;
    bit<8> read;
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

control VerifyImpl(inout headers_t hdr, inout metadata_t meta) { apply {} }

control IngressImpl(inout headers_t hdr, inout metadata_t meta,
                    inout standard_metadata_t standard_metadata) {
    register<bit<200>>(2) wide;
    apply {
        standard_metadata.egress_spec = 1;
        bit<200> value;
        wide.read(value, 1);
        hdr.h.read = value[199:192];
        value[199:192] = hdr.h.written;
        wide.write(1, value);
    }
}

control EgressImpl(inout headers_t hdr, inout metadata_t meta,
                   inout standard_metadata_t standard_metadata) { apply {} }

control ComputeImpl(inout headers_t hdr, inout metadata_t meta) { apply {} }

control DeparserImpl(packet_out packet, in headers_t hdr) {
    apply { packet.emit(hdr); }
}

V1Switch(ParserImpl(), VerifyImpl(), IngressImpl(), EgressImpl(), ComputeImpl(), DeparserImpl()) main;
