// Multicast groups, clone sessions, registers and meters from the outside.
#include <core.p4>
#include <v1model.p4>

header order_t {
    bit<8> what;
    bit<8> value;
    bit<8> copy;
}

struct headers_t {
    order_t order;
}

struct metadata_t {}

parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    state start {
        packet.extract(hdr.order);
        transition accept;
    }
}

control FromPort(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    register<bit<8>>(4) values;
    meter(1, MeterType.packets) limit;

    apply {
        standard.egress_spec = 1;
        if (hdr.order.what == 1) {
            standard.mcast_grp = 7;
        } else if (hdr.order.what == 2) {
            clone(CloneType.I2E, 5);
        } else if (hdr.order.what == 3) {
            values.read(hdr.order.value, 2);
            values.write(3, hdr.order.value + 1);
        } else if (hdr.order.what == 4) {
            limit.execute_meter(0, hdr.order.value);
        }
    }
}

control ToPort(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply {
        if (standard.instance_type == 1) {
            hdr.order.copy = 0xcc;
        } else {
            hdr.order.copy = (bit<8>) standard.egress_rid;
        }
    }
}

control Verify(inout headers_t hdr, inout metadata_t meta) {
    apply {}
}

control Update(inout headers_t hdr, inout metadata_t meta) {
    apply {}
}

control Deparse(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.order);
    }
}

V1Switch(Parse(), Verify(), FromPort(), ToPort(), Update(), Deparse()) main;
