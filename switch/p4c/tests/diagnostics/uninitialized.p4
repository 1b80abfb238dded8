#include <v1model.p4>

header h_t { bit<8> a; bit<16> b; }
struct headers { h_t h; h_t g; }
struct metadata { bit<8> x; bit<8> y; }

parser P(packet_in p, out headers hdr, inout metadata meta, inout standard_metadata_t sm) {
    h_t[2] stack;
    state start {
        p.extract(stack.next);
        meta.x = stack.last.a;
        meta.y = stack.next.a;
        transition accept;
    }
}
control V(inout headers hdr, inout metadata meta) { apply {} }
control I(inout headers hdr, inout metadata meta, inout standard_metadata_t sm) {
    apply {
        meta.x = 1;
    }
}
control E(inout headers hdr, inout metadata meta, inout standard_metadata_t sm) { apply {} }
control C(inout headers hdr, inout metadata meta) { apply {} }
control D(packet_out p, in headers hdr) { apply { p.emit(hdr); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
