#include <core.p4>
#include <v1model.p4>

header h_t { @name("b") bit<8> a; bit<16> b; }
struct inner_t { h_t h; bit<8> x; }
struct headers { inner_t inner; @name("inner.h") h_t other; }
struct metadata { inner_t inner; @name("inner.x") bit<8> other; }

parser P(packet_in p, out headers hdr, inout metadata meta, inout standard_metadata_t sm) {
    state start { p.extract(hdr.inner.h); p.extract(hdr.other); transition accept; }
}
control V(inout headers hdr, inout metadata meta) { apply { } }
control I(inout headers hdr, inout metadata meta, inout standard_metadata_t sm) {
    apply { meta.other = hdr.other.a; }
}
control E(inout headers hdr, inout metadata meta, inout standard_metadata_t sm) { apply { } }
control C(inout headers hdr, inout metadata meta) { apply { } }
control D(packet_out p, in headers hdr) { apply { p.emit(hdr.other); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
