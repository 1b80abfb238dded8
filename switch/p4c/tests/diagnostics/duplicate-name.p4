#include <core.p4>
#include <v1model.p4>

header h_t { bit<8> a; bit<16> b; }
struct headers { h_t h; }
struct metadata { bit<8> x; }
match_kind { exact }
bit<8> f(in bit<8> x) { return x; }
bit<8> f(in bit<8> x, in bit<8> y) { return y; }
bit<8> f(in bit<16> x) { return 1; }

parser P(packet_in p, out headers hdr, inout metadata meta, inout standard_metadata_t sm) {

    state start { p.extract(hdr.h); transition accept; }
}
control V(inout headers hdr, inout metadata meta) { apply { } }
control I(inout headers hdr, inout metadata meta, inout standard_metadata_t sm) {

    table t {
        key = { meta.x: exact; }
        key = { hdr.h.a: exact; }
        actions = { NoAction; }
    }
    apply {
        t.apply();
        bit<8> x; bit<16> x;
    }
}
control E(inout headers hdr, inout metadata meta, inout standard_metadata_t sm) {

    apply {  }
}
control C(inout headers hdr, inout metadata meta) { apply {  } }
control D(packet_out p, in headers hdr) { apply { p.emit(hdr); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
