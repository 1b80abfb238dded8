#include <core.p4>
#include <v1model.p4>
// Copies of stacks: BMv2 has one primitive for headers and another for unions.
header a_t { bit<8> x; }
header b_t { bit<16> y; }
header_union u_t { a_t a; b_t b; }
struct headers_t { a_t first; u_t[2] unions; u_t[2] copied_unions; a_t[2] stack; a_t[2] copied_stack; }
struct metadata_t {}
parser P(packet_in p, out headers_t hdr, inout metadata_t m, inout standard_metadata_t sm) {
    state start { p.extract(hdr.first); p.extract(hdr.unions[0].a); p.extract(hdr.unions[1].b); p.extract(hdr.stack.next); transition accept; }
}
control I(inout headers_t hdr, inout metadata_t m, inout standard_metadata_t sm) {
    apply {
        hdr.copied_unions = hdr.unions;
        hdr.copied_stack = hdr.stack;
        sm.egress_spec = 1;
    }
}
control E(inout headers_t hdr, inout metadata_t m, inout standard_metadata_t sm) { apply {} }
control V(inout headers_t hdr, inout metadata_t m) { apply {} }
control D(packet_out p, in headers_t hdr) { apply { p.emit(hdr); } }
V1Switch(P(), V(), I(), E(), V(), D()) main;
