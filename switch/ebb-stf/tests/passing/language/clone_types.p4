// Clones of a type that the pipeline does not make: the pipeline decides. One of ingress is the frame as it came, one of
// egress the packet as it is.
#include <core.p4>
#include <v1model.p4>

header order_t {
    bit<8> what;
    bit<8> seen;
    bit<8> instance;
}

struct headers_t {
    order_t order;
}

struct metadata_t {
    @field_list(1)
    bit<8> kept;
}

parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    state start {
        packet.extract(hdr.order);
        transition accept;
    }
}

control FromPort(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply {
        standard.egress_spec = 1;
        meta.kept = 0x10;
        hdr.order.seen = 0x01;
        if (hdr.order.what == 1) {
            clone_preserving_field_list(CloneType.E2E, 5, 1);
        }
    }
}

control ToPort(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply {
        hdr.order.instance = (bit<8>) standard.instance_type;
        hdr.order.seen = hdr.order.seen + meta.kept;
        meta.kept = 0x20;
        if (hdr.order.what == 2 && standard.instance_type == 0) {
            clone_preserving_field_list(CloneType.I2E, 5, 1);
        }
    }
}

control Verify(inout headers_t hdr, inout metadata_t meta) {
    apply {}
}

control Update(inout headers_t hdr, inout metadata_t meta) {
    apply {}
}

control Write(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.order);
    }
}

V1Switch(Parse(), Verify(), FromPort(), ToPort(), Update(), Write()) main;
