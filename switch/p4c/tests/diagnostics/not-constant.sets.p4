#include <core.p4>
#include <v1model.p4>

header h_t { bit<8> a; bit<16> b; }
struct headers { h_t h; }
struct metadata { bit<8> x; }

parser P(packet_in p, out headers hdr, inout metadata meta, inout standard_metadata_t sm) {
    state start {
        p.extract(hdr.h);
        transition select(hdr.h.a, hdr.h.b) {
            (meta.x, _): accept;
            (1 .. meta.x, 0 &&& hdr.h.b): accept;
            (p.lookahead<bit<8>>(), 3): accept;
            default: reject;
        }
    }
}
control V(inout headers hdr, inout metadata meta) { apply { } }
control I(inout headers hdr, inout metadata meta, inout standard_metadata_t sm) {
    bit<8> last = 1;
    table t {
        key = { hdr.h.a : ternary; hdr.h.b : exact; }
        actions = { NoAction; }
        const entries = {
            (last, 3) : NoAction();
            (meta.x &&& 7, hdr.h.b + 1) : NoAction();
        }
    }
    apply {
        last = last + 1;
        t.apply();
    }
}
control E(inout headers hdr, inout metadata meta, inout standard_metadata_t sm) {

    apply {  }
}
control C(inout headers hdr, inout metadata meta) { apply {  } }
control D(packet_out p, in headers hdr) { apply { p.emit(hdr); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
