#include <v1model.p4>

header h_t { bit<8> a; bit<16> b; }
struct headers { h_t h; h_t g; }
struct metadata { bit<8> x; bit<8> y; }

header_union u_t { h_t one; h_t two; }
parser P(packet_in p, out headers hdr, inout metadata meta, inout standard_metadata_t sm) {
    state start {
        meta.x = hdr.h.a;
        p.extract(hdr.h);
        transition select(hdr.h.a) { 1: more; default: end; }
    }
    state more { p.extract(hdr.g); transition end; }
    state end { meta.y = hdr.g.a; transition accept; }
}
control V(inout headers hdr, inout metadata meta) { apply {} }
control I(inout headers hdr, inout metadata meta, inout standard_metadata_t sm) {
    action pop() { hdr.g.setInvalid(); }
    table t { key = { hdr.h.a : exact; } actions = { pop; NoAction; } }
    u_t u;
    apply {
        t.apply();
        meta.x = hdr.g.a;
        if (hdr.g.isValid()) { meta.x = hdr.g.a; }
        hdr.h.setInvalid();
        hdr.h.a = 1;
        u.one.setValid();
        u.one.a = 1;
        u.two.setValid();
        u.one.a = 2;
        u.two.a = 2;
    }
}
control E(inout headers hdr, inout metadata meta, inout standard_metadata_t sm) { apply {} }
control C(inout headers hdr, inout metadata meta) { apply {} }
control D(packet_out p, in headers hdr) { apply { p.emit(hdr); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
