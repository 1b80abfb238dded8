// `mark_to_drop` and copies of the standard metadata: in a variable, in the metadata, as an argument.
#include <core.p4>
#include <v1model.p4>

header order_t {
    bit<8> what;
    bit<16> seen;
}

struct headers_t {
    order_t order;
}

struct metadata_t {
    standard_metadata_t kept;
}

parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    state start {
        packet.extract(hdr.order);
        transition accept;
    }
}

void drop_in_a_function(inout standard_metadata_t any) {
    mark_to_drop(any);
}

control Dropper(inout standard_metadata_t any) {
    apply {
        mark_to_drop(any);
    }
}

control FromPort(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    Dropper() dropper;

    action drop(inout standard_metadata_t any) {
        mark_to_drop(any);
    }
    action choose() {
        standard_metadata_t copy = standard;
        mark_to_drop(copy);
        hdr.order.seen = (bit<16>) copy.egress_spec;
    }

    apply {
        standard.egress_spec = 1;
        standard_metadata_t copy = standard;
        if (hdr.order.what == 0) {
            // Only the copy.
            mark_to_drop(copy);
        } else if (hdr.order.what == 1) {
            drop(standard);
        } else if (hdr.order.what == 2) {
            drop_in_a_function(copy);
            standard = copy;
        } else if (hdr.order.what == 3) {
            dropper.apply(standard);
        } else if (hdr.order.what == 4) {
            choose();
        } else if (hdr.order.what == 5) {
            // The group of the copy is cleared, that of the packet stays.
            standard.mcast_grp = 7;
            copy.mcast_grp = 7;
            drop_in_a_function(copy);
            hdr.order.seen = copy.mcast_grp + 1;
        } else if (hdr.order.what == 6) {
            meta.kept = standard;
            drop(meta.kept);
            hdr.order.seen = (bit<16>) meta.kept.egress_spec;
        }
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
        packet.emit(hdr.order);
    }
}

V1Switch(Parse(), Verify(), FromPort(), ToPort(), Update(), Write()) main;
