#include <core.p4>
#include <v1model.p4>

header h_t { bit<8> a; bit<16> b; }
struct headers { h_t h; }
struct metadata { bit<8> x; }

parser P(packet_in p, out headers hdr, inout metadata meta, inout standard_metadata_t sm) {
    state start { p.extract(hdr.h); transition accept; }
}
control V(inout headers hdr, inout metadata meta) { apply { } }
control I(inout headers hdr, inout metadata meta, inout standard_metadata_t sm) {
    meter(4, MeterType.bytes) m;
    register<int>(4) r;
    apply { 
        bool flag;
        random(flag, flag, flag);
        m.execute_meter(1, flag);
        hash(flag, HashAlgorithm.crc16, 8w0, { meta.x }, 8w4);
        hash(meta.x, HashAlgorithm.crc16, 8w0, { "text" }, 8w4);
        digest(1, { meta.x, "text" });
        log_msg("{}", { "text" });
     }
}
control E(inout headers hdr, inout metadata meta, inout standard_metadata_t sm) {

    apply {  }
}
control C(inout headers hdr, inout metadata meta) { apply { } }
control D(packet_out p, in headers hdr) { apply { p.emit(hdr); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
