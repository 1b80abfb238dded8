#include <core.p4>
header H { bit<8> x; }
struct Headers { H h; }
struct Other { bit<8> y; }
struct Meta { bit<9> port; }
struct standard_metadata_t { bit<9> egress_spec; }
parser P(packet_in packet, out Headers headers, inout Meta meta, inout standard_metadata_t standard) {
    state start { transition accept; }
}
control Check(inout Headers headers, inout Meta meta) { apply {} }
control Forward(inout Other headers, inout Meta meta, inout standard_metadata_t standard) {
    apply { headers.y = 1; }
}
control Deparse(packet_out packet, in Headers headers) { apply { packet.emit(headers.h); } }
parser Parser(packet_in p, out Headers h, inout Meta m, inout standard_metadata_t s);
control Checksum(inout Headers h, inout Meta m);
control Ingress(inout Other h, inout Meta m, inout standard_metadata_t s);
control Deparser(packet_out p, in Headers h);
package V1Switch(Parser p, Checksum v, Ingress i, Ingress e, Checksum c, Deparser d);
V1Switch(P(), Check(), Forward(), Forward(), Check(), Deparse()) main;
