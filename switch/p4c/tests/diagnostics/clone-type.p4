#include <core.p4>
#include <v1model.p4>

header h_t { bit<8> a; }
struct headers { h_t h; }
struct metadata { @field_list(1) bit<8> x; }

parser P(packet_in p, out headers hdr, inout metadata meta, inout standard_metadata_t sm) {
    state start { p.extract(hdr.h); transition accept; }
}
control V(inout headers hdr, inout metadata meta) { apply { } }
// In both pipelines: which clone it makes depends on the pipeline.
control Both(inout headers hdr) {
    apply { if (hdr.h.a == 1) { clone_preserving_field_list(CloneType.I2E, 5, 1); } }
}
control I(inout headers hdr, inout metadata meta, inout standard_metadata_t sm) {
    Both() both;
    apply { both.apply(hdr); if (hdr.h.a == 2) { clone(CloneType.E2E, 5); } }
}
control E(inout headers hdr, inout metadata meta, inout standard_metadata_t sm) {
    Both() both;
    apply { both.apply(hdr); }
}
control C(inout headers hdr, inout metadata meta) { apply { } }
control D(packet_out p, in headers hdr) { apply { p.emit(hdr.h); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
