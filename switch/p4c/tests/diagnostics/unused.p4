#include <v1model.p4>

header h_t { bit<8> a; bit<16> b; }
struct headers { h_t h; h_t g; }
struct metadata { bit<8> x; bit<8> y; }

typedef bit<48> mac_t;
const bit<8> SPARE = 3;
const bool CHECKED = static_assert(8w1 == 1, "never printed");
bit<8> twice(in bit<8> value, in bit<8> other) { return value + value; }
control Unplugged(inout headers hdr) { apply { hdr.h.a = 1; } }
parser P(packet_in p, out headers hdr, inout metadata meta, inout standard_metadata_t sm) {
    state start { p.extract(hdr.h); p.extract(hdr.g); transition accept; }
}
control V(inout headers hdr, inout metadata meta) { apply {} }
control I(inout headers hdr, inout metadata meta, inout standard_metadata_t sm) {
    register<bit<8>>(4) kept;
    bit<8> lost;
    bit<8> __hidden;
    @noWarn("unused") bit<8> wanted;
    action never(bit<8> port) { meta.x = port; }
    action half(bit<8> used, bit<8> ignored) { meta.x = used; }
    table applied { key = { hdr.h.a : exact; } actions = { half; NoAction; } }
    table forgotten { key = { hdr.h.a : exact; } actions = { half; NoAction; } }
    apply {
        applied.apply();
    }
}
control E(inout headers hdr, inout metadata meta, inout standard_metadata_t sm) { apply {} }
control C(inout headers hdr, inout metadata meta) { apply {} }
control D(packet_out p, in headers hdr) { apply { p.emit(hdr); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
