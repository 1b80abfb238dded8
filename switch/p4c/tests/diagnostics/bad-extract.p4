#include <core.p4>
#include <v1model.p4>

header h_t { bit<8> a; bit<16> b; }
header v_t { bit<8> a; varbit<32> v; }
header w_t { varbit<8> a; varbit<8> b; }
struct deep_t { h_t h; v_t v; }
enum kind_t { one, two }
struct with_enum_t { kind_t kind; }
struct headers { h_t h; h_t[2] s; v_t v; w_t w; }
struct metadata { bit<8> x; bool flag; }

parser P(packet_in p, out headers hdr, inout metadata meta, inout standard_metadata_t sm) {
    state start { p.extract(hdr.h); 
        p.extract(meta);
        p.extract(hdr);
        p.extract(hdr.h, 32w8);
        p.extract(hdr.v);
        p.extract(hdr.w, 32w8);
        meta.x = p.lookahead<v_t>().a;
        meta.x = p.lookahead<deep_t>().h.a;
        with_enum_t e = p.lookahead<with_enum_t>();
        transition accept; }
}
control V(inout headers hdr, inout metadata meta) { apply { } }
control I(inout headers hdr, inout metadata meta, inout standard_metadata_t sm) {
    apply {
    }
}
control E(inout headers hdr, inout metadata meta, inout standard_metadata_t sm) { apply { } }
control C(inout headers hdr, inout metadata meta) { apply { } }
control D(packet_out p, in headers hdr) { apply { p.emit(hdr); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
