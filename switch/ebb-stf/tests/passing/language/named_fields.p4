#include <core.p4>
#include <v1model.p4>
// v1model before 2021: who sends a packet once more names the fields that it keeps.
header h_t { bit<8> what; bit<8> kind; bit<8> a; bit<8> b; bit<8> port; }
struct headers_t { h_t h; }
struct inner_t { bit<8> b; }
struct metadata_t { bit<8> a; inner_t inner; }
parser P(packet_in p, out headers_t hdr, inout metadata_t m, inout standard_metadata_t sm) {
    state start { p.extract(hdr.h); transition accept; }
}
void show(inout h_t h, in metadata_t m, in standard_metadata_t sm) {
    h.kind = (bit<8>) sm.instance_type;
    h.a = m.a;
    h.b = m.inner.b;
    h.port = (bit<8>) sm.ingress_port;
}
control Resubmit(in h_t h, inout metadata_t m, inout standard_metadata_t sm) {
    apply {
        if (h.what == 4) { resubmit(m); }
        if (h.what == 5) { resubmit({ m.inner }); }
        if (h.what == 6) { resubmit<tuple<bit<8>, standard_metadata_t>>({ m.a, sm }); }
    }
}
control I(inout headers_t hdr, inout metadata_t m, inout standard_metadata_t sm) {
    Resubmit() again;
    action copy(bit<32> session) { clone3(CloneType.I2E, session, { m.a, sm }); }
    apply {
        if (sm.instance_type == 0) {
            m.a = 0x0a;
            m.inner.b = 0x0b;
            sm.egress_spec = 1;
            if (hdr.h.what == 1) { copy(5); }
            if (hdr.h.what == 2) { clone3<metadata_t>(CloneType.I2E, 5, m); }
            if (hdr.h.what == 3) { clone3(CloneType.I2E, 32w5, {}); }
            again.apply(hdr.h, m, sm);
        } else {
            show(hdr.h, m, sm);
            sm.egress_spec = 2;
        }
    }
}
control E(inout headers_t hdr, inout metadata_t m, inout standard_metadata_t sm) {
    apply {
        if (sm.instance_type == 1 || sm.instance_type == 2) {
            show(hdr.h, m, sm);
        } else if (hdr.h.kind == 0) {
            if (hdr.h.what == 7) { clone3(CloneType.E2E, 5, { m.inner.b }); }
            if (hdr.h.what == 8) { recirculate({ m.a }); }
            if (hdr.h.what == 9) { recirculate<tuple<>>({}); }
        }
    }
}
control V(inout headers_t hdr, inout metadata_t m) { apply {} }
control D(packet_out p, in headers_t hdr) { apply { p.emit(hdr); } }
V1Switch(P(), V(), I(), E(), V(), D()) main;
