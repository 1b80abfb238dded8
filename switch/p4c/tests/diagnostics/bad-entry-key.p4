#include <core.p4>
#include <v1model.p4>

header h_t { bit<8> a; bit<16> b; }
struct headers { h_t h; }
struct metadata { bit<8> x; }

parser P(packet_in p, out headers hdr, inout metadata meta, inout standard_metadata_t sm) {

    state start { p.extract(hdr.h); transition accept; }
}
control V(inout headers hdr, inout metadata meta) { apply { } }
control I(inout headers hdr, inout metadata meta, inout standard_metadata_t sm) {
    table t { key = { hdr.h.a : exact; } actions = { NoAction; } const entries = { 1 &&& 3 : NoAction(); } }
    table u { key = { hdr.h.a : exact; } actions = { NoAction; } const entries = { 1 .. 3 : NoAction(); } }
    table v { key = { hdr.h.a : exact; } actions = { NoAction; } const entries = { 2 : NoAction(); _ : NoAction(); } }
    apply {
        t.apply();
        u.apply();
        v.apply();
    }
}
control E(inout headers hdr, inout metadata meta, inout standard_metadata_t sm) {

    apply {  }
}
control C(inout headers hdr, inout metadata meta) { apply {  } }
control D(packet_out p, in headers hdr) { apply { p.emit(hdr); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
