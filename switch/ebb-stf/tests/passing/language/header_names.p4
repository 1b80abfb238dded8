// Headers, types and variables that are called as something in the BMv2 JSON is.
#include <core.p4>
#include <v1model.p4>

header standard_metadata {
    bit<8> value;
}

header scalars_0 {
    bit<8> value;
}

struct inner_t {
    bit<8> value;
}

struct headers_t {
    standard_metadata scalars;
    scalars_0[2] userMetadata;
    inner_t inner;
}

struct metadata_t {
    bit<8> value;
}

parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    state start {
        packet.extract(hdr.scalars);
        packet.extract(hdr.userMetadata.next);
        hdr.inner.value = hdr.scalars.value;
        transition accept;
    }
}

control FromPort(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply {
        standard.egress_spec = 1;
        standard_metadata scalars = hdr.scalars;
        scalars.value = scalars.value + 1;
        inner_t inner = { 9 };
        meta.value = scalars.value;
        hdr.userMetadata[0].value = meta.value + inner.value;
        hdr.scalars.value = hdr.inner.value;
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
        packet.emit(hdr.scalars);
        packet.emit(hdr.userMetadata);
    }
}

V1Switch(Parse(), Verify(), FromPort(), ToPort(), Update(), Write()) main;
