#include <v1model.p4>

header h_t { bit<8> a; bit<16> b; }
struct headers { h_t h; h_t g; }
struct metadata { bit<8> x; bit<8> y; }

bit<8> some(in bit<8> value) { return value; }
bit<8> none(out bit<8> result) { return 1; }
control Helper(out metadata m) { apply { m.x = none(m.x); } }
parser P(packet_in p, out headers hdr, inout metadata meta, inout standard_metadata_t sm) {
    state start { p.extract(hdr.h); p.extract(hdr.g); transition accept; }
}
control V(inout headers hdr, inout metadata meta) { apply {} }
control I(inout headers hdr, inout metadata meta, inout standard_metadata_t sm) {
    Helper() helper;
    action half(out bit<8> result) { if (hdr.h.a == 1) { result = 1; } }
    apply {
        half(meta.x);
        meta.y = some(meta.x);
        helper.apply(meta);
    }
}
control E(inout headers hdr, inout metadata meta, inout standard_metadata_t sm) { apply {} }
control C(inout headers hdr, inout metadata meta) { apply {} }
control D(packet_out p, in headers hdr) { apply { p.emit(hdr); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
