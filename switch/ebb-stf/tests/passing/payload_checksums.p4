// A checksum over a field and the payload, verified and updated.
#include <core.p4>
#include <v1model.p4>

header h_t {
    bit<16> checksum;
    bit<16> value;
    bit<8> wrong;
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
    apply {
        verify_checksum_with_payload(hdr.h.isValid(), { hdr.h.value }, hdr.h.checksum,
                                     HashAlgorithm.csum16);
    }
}

control ingress(inout headers_t hdr, inout metadata_t meta,
                inout standard_metadata_t standard_metadata) {
    apply {
        standard_metadata.egress_spec = 1;
        hdr.h.wrong = (bit<8>)standard_metadata.checksum_error;
        if (hdr.h.value == 0x0103) {
            truncate(3);
        }
    }
}

control egress(inout headers_t hdr, inout metadata_t meta,
               inout standard_metadata_t standard_metadata) {
    apply {}
}

control computeChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply {
        update_checksum_with_payload(hdr.h.isValid(), { hdr.h.value }, hdr.h.checksum,
                                     HashAlgorithm.csum16);
    }
}

control DeparserImpl(packet_out packet, in headers_t hdr) {
    apply { packet.emit(hdr.h); }
}

V1Switch(ParserImpl(), verifyChecksum(), ingress(), egress(), computeChecksum(), DeparserImpl()) main;
