// Values of annotations: constants, members of enums, expressions.
#include <core.p4>
#define V1MODEL_VERSION 20200408
#include <v1model.p4>

const bit<8> KEEP = 3;

enum bit<8> Lists {
    both = 4,
    none = 5
}

header order_t {
    bit<8> what;
    bit<8> a;
    bit<8> b;
    bit<8> c;
}

struct headers_t {
    order_t order;
}

struct inner_t {
    @field_list(KEEP)
    bit<8> a;
}

struct metadata_t {
    inner_t inner;
    @field_list(Lists.both, KEEP + 3)
    bit<8> b;
    @field_list(1 + 2, Lists.both)
    bit<8> c;
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
        meta.inner.a = 0xA;
        meta.b = 0xB;
        meta.c = 0xC;
        if (hdr.order.what == 0) {
            clone_preserving_field_list(CloneType.I2E, 5, KEEP);
        } else if (hdr.order.what == 1) {
            clone_preserving_field_list(CloneType.I2E, 5, Lists.both);
        } else {
            clone_preserving_field_list(CloneType.I2E, 5, 6);
        }
    }
}

control ToPort(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply {
        if (standard.instance_type == 1) {
            hdr.order.a = meta.inner.a;
            hdr.order.b = meta.b;
            hdr.order.c = meta.c;
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
