// Variables that are called as headers, stacks and unions are.
#include <core.p4>
#include <v1model.p4>

header small_t {
    bit<8> a;
}
header large_t {
    bit<16> b;
}
header_union either_t {
    small_t small;
    large_t large;
}
struct group_t {
    small_t inner;
}
struct headers_t {
    small_t first;
    group_t group;
    small_t[2] stack;
    either_t[2] unions;
}
struct metadata_t {}

parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    state start {
        packet.extract(hdr.first);
        packet.extract(hdr.group.inner);
        packet.extract(hdr.stack.next);
        packet.extract(hdr.unions.next.large);
        transition accept;
    }
}

control FromPort(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    small_t first;
    group_t group;
    small_t[2] stack;
    either_t[2] unions;

    apply {
        standard.egress_spec = 1;
        first = hdr.first;
        first.a = first.a + 1;
        group.inner = hdr.group.inner;
        group.inner.a = group.inner.a + 1;
        stack = hdr.stack;
        stack[0].a = stack[0].a + 1;
        unions[1].large = { 0x1234 };
        if (hdr.first.a == 0) {
            hdr.first = first;
            hdr.group = group;
            hdr.stack = stack;
            hdr.unions[0].large = unions[1].large;
        }
    }
}

control ToPort(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply {}
}
control Checksum(inout headers_t hdr, inout metadata_t meta) {
    apply {}
}
control Deparse(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr);
    }
}
V1Switch(Parse(), Checksum(), FromPort(), ToPort(), Checksum(), Deparse()) main;
