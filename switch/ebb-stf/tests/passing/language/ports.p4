#include <core.p4>
#include <v1model.p4>
// Packets may come in at the drop port; none leaves there.
header h_t { bit<16> from; bit<16> to; }
struct headers_t { h_t h; }
struct metadata_t {}
parser P(packet_in p, out headers_t hdr, inout metadata_t m, inout standard_metadata_t sm) {
    state start { p.extract(hdr.h); transition accept; }
}
control I(inout headers_t hdr, inout metadata_t m, inout standard_metadata_t sm) {
    apply {
        hdr.h.from = (bit<16>) sm.ingress_port;
        sm.egress_spec = (bit<9>) hdr.h.to;
    }
}
control E(inout headers_t hdr, inout metadata_t m, inout standard_metadata_t sm) { apply {} }
control V(inout headers_t hdr, inout metadata_t m) { apply {} }
control D(packet_out p, in headers_t hdr) { apply { p.emit(hdr); } }
V1Switch(P(), V(), I(), E(), V(), D()) main;
