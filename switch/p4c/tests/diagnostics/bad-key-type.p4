#include <core.p4>
#include <v1model.p4>

header h_t { bit<8> a; bit<16> b; }
struct headers { h_t h; }
struct metadata { bit<8> x; }
struct pair { bit<8> x; bit<8> y; }
tuple<bit<8>, bit<8>> both(in bit<8> x) { return { x, x }; }

parser P(packet_in p, out headers hdr, inout metadata meta, inout standard_metadata_t sm) {
    value_set<int>(4) numbers;
    state start {
        p.extract(hdr.h);
        transition select(hdr.h) { _: second; }
    }
    state second { transition select(hdr.h.a, 1) { (1, 1): third; } }
    state third { transition select(both(hdr.h.a)) { { 1, 1 }: choice; } }
    state choice { transition select(hdr.h.a == 1 ? both(1) : both(2)) { { 1, 1 }: fourth; } }
    state fourth { transition select(hdr.h.a) { numbers: accept; _: accept; } }
}
control V(inout headers hdr, inout metadata meta) { apply { } }
control I(inout headers hdr, inout metadata meta, inout standard_metadata_t sm) {
    table t {
        key = { hdr : exact; hdr.h.a : exact; meta.y : exact; }
        actions = { NoAction; }
        const entries = { (1, 2, 3) : NoAction(); }
    }
    apply {
        t.apply();
    }
}
control E(inout headers hdr, inout metadata meta, inout standard_metadata_t sm) {

    apply {  }
}
control C(inout headers hdr, inout metadata meta) { apply {  } }
control D(packet_out p, in headers hdr) { apply { p.emit(hdr); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
