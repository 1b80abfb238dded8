#include <v1model.p4>

header h_t { bit<8> a; bit<16> b; }
struct headers { h_t h; h_t g; }
struct metadata { bit<8> x; bit<8> y; }

const bit<8> SIZE = 2;
const bit<8> USED = SIZE;
@noWarn("unused") const bit<8> LAST = USED;
bit<8> same(in bit<8> same) { return same; }
parser P(packet_in p, out headers hdr, inout metadata meta, inout standard_metadata_t sm) {
    state start { p.extract(hdr.h); p.extract(hdr.g); transition accept; }
}
control V(inout headers hdr, inout metadata meta) { apply {} }
control I(inout headers hdr, inout metadata meta, inout standard_metadata_t sm) {
    bit<8> hash = 1;
    action own(bit<8> own) { meta.x = own; }
    action set(bit<8> meta_x) { bit<8> hash = meta_x; meta.x = hash; }
    table t { key = { hdr.h.a : exact; } actions = { set; own; NoAction; } }
    apply {
        meta.y = same(hash);
        t.apply();
        if (meta.x == 1) { bit<8> SIZE = 3; meta.y = SIZE; }
    }
}
control E(inout headers hdr, inout metadata meta, inout standard_metadata_t sm) { apply {} }
control C(inout headers hdr, inout metadata meta) { bit<8> C = 1; apply { meta.x = C; } }
control D(packet_out p, in headers hdr) { apply { p.emit(hdr); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
