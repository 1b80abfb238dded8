// `recirculate` in ingress: the packet recirculates after egress, by the field list and the values of then; a replica
// and a packet that is dropped do not.
#include <core.p4>
#include <v1model.p4>

header order_t {
    bit<8> what;
    bit<8> passes;
    bit<8> seen;
}

struct headers_t {
    order_t order;
}

struct metadata_t {
    @field_list(1)
    bit<8> kept;
    bit<8> lost;
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
        hdr.order.seen = meta.kept + meta.lost;
        if (standard.instance_type == 4) {
            return;
        }
        if (hdr.order.what == 1) {
            recirculate_preserving_field_list(1);
        } else if (hdr.order.what == 2) {
            recirculate_preserving_field_list(1);
            standard.mcast_grp = 7;
        } else if (hdr.order.what == 3) {
            recirculate_preserving_field_list(1);
            mark_to_drop(standard);
        } else if (hdr.order.what == 4) {
            recirculate_preserving_field_list(1);
            recirculate_preserving_field_list(2);
        }
    }
}

control ToPort(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply {
        hdr.order.passes = hdr.order.passes + 1;
        meta.kept = 0x20;
        meta.lost = 0x03;
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
