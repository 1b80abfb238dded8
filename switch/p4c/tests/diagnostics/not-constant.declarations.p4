#include <core.p4>
#include <v1model.p4>

bit<8> double(in bit<8> x) { return x << 1; }

header h_t { bit<8> a; bit<16> b; }
struct headers { h_t h; }
const bit<8> LIMIT = double(4);
struct metadata { bit<8> x; }

parser P(packet_in p, out headers hdr, inout metadata meta, inout standard_metadata_t sm) {

    state start { p.extract(hdr.h); transition accept; }
}
control Known()(bit<8> given) {
    const bit<8> next = given + 1;
    const tuple<bit<8>, bit<8>> both = { given, next };
    apply { log_msg("{} {}", both); }
}
control V(inout headers hdr, inout metadata meta) { apply { } }
control I(inout headers hdr, inout metadata meta, inout standard_metadata_t sm) {
    const bit<8> before = meta.x;
    action add(bit<8> given) {
        const bit<8> more = given + 1;
        meta.x = more;
    }
    apply {
        const bool there = hdr.h.isValid();
        if (there) { add(before); }
    }
}
control E(inout headers hdr, inout metadata meta, inout standard_metadata_t sm) {

    apply {  }
}
control C(inout headers hdr, inout metadata meta) { apply {  } }
control D(packet_out p, in headers hdr) { apply { p.emit(hdr); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
