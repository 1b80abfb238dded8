// Annotations of a program about warnings hold for all of it.
#include <v1model.p4>

struct headers { }
struct metadata { bit<8> x; }

@diagnostic("shadow", "disable")
parser P(packet_in p, out headers hdr, inout metadata meta, inout standard_metadata_t sm) {
    state start { transition accept; }
}

control V(inout headers hdr, inout metadata meta) { apply {} }

control I(inout headers hdr, inout metadata meta, inout standard_metadata_t sm) {
    bit<8> random = 1;
    @noWarn("unused") @noWarn("shadow") bit<8> hash;
    @noWarn("unused") action set(bit<8> unused) { meta.x = 1; }
    @noWarn("uninitialized_use") action get(out bit<8> value) { bit<8> none; value = none; }
    apply {
        meta.x = random;
        get(meta.x);
        @noWarn("overflow") { meta.x = meta.x << 9; }
    }
}

@diagnostic("unused", "disable")
control E(inout headers hdr, inout metadata meta, inout standard_metadata_t sm) {
    bit<8> lost;
    apply {}
}

control C(inout headers hdr, inout metadata meta) { apply {} }
control D(packet_out p, in headers hdr) { apply { p.emit(hdr); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
