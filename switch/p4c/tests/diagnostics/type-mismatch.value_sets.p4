#include <core.p4>
#include <v1model.p4>

header h_t { bit<8> a; bit<16> b; }
struct headers { h_t h; }
struct metadata { bit<8> x; }

parser P(packet_in p, out headers hdr, inout metadata meta, inout standard_metadata_t sm) {
    value_set<bit<8>>(4) narrow;
    value_set<tuple<bit<8>, bit<16>>>(4) both;
    state start {
        p.extract(hdr.h);
        transition select(hdr.h.b) { narrow: next; default: reject; }
    }
    state next { transition select(hdr.h.a, hdr.h.b) { both: last; narrow: last; default: accept; } }
    state last { transition select(hdr.h.a) { narrow: accept; both: accept; default: accept; } }
}
control V(inout headers hdr, inout metadata meta) { apply { } }
control I(inout headers hdr, inout metadata meta, inout standard_metadata_t sm) {
    apply {
        meta.x = 1;
    }
}
control E(inout headers hdr, inout metadata meta, inout standard_metadata_t sm) {

    apply {  }
}
control C(inout headers hdr, inout metadata meta) { apply {  } }
control D(packet_out p, in headers hdr) { apply { p.emit(hdr); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
