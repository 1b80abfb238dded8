#include <core.p4>
#include <v1model.p4>

header h_t { bit<8> a; bit<16> b; }
struct headers { h_t h; }
struct metadata { bit<8> x; bool flag; }

parser P(packet_in p, out headers hdr, inout metadata meta, inout standard_metadata_t sm) {

    state start { p.extract(hdr.h); for (bit<8> i in 1 .. 3) { meta.x = i; } transition accept; }
}
control V(inout headers hdr, inout metadata meta) { apply { } }
control I(inout headers hdr, inout metadata meta, inout standard_metadata_t sm) {

    apply {
        for (bool b in false .. true) { meta.x = 1; }
        for (bit<8> i in meta) { meta.x = i; }
    }
}
control E(inout headers hdr, inout metadata meta, inout standard_metadata_t sm) {

    apply {  }
}
control C(inout headers hdr, inout metadata meta) { apply {  } }
control D(packet_out p, in headers hdr) { apply { p.emit(hdr); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
