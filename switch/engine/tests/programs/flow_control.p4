// Packets are a place, a message of advanced flow control, and the queue of port 9 that they go to. The message is sent
// by the deparser of ingress (place 1) or of egress (place 2); the other packets send none.
#include <core.p4>
#include <t2na.p4>

header message_t { bit<8> place; bit<32> message; bit<8> queue; }
struct headers { message_t m; }
struct metadata { }

parser IP(packet_in p, out headers hdr, out metadata md, out ingress_intrinsic_metadata_t ig) {
    state start {
        p.extract(ig);
        p.advance(PORT_METADATA_SIZE);
        p.extract(hdr.m);
        transition accept;
    }
}
control I(inout headers hdr, inout metadata md, in ingress_intrinsic_metadata_t ig,
          in ingress_intrinsic_metadata_from_parser_t prsr, inout ingress_intrinsic_metadata_for_deparser_t dprsr,
          inout ingress_intrinsic_metadata_for_tm_t tm) {
    apply {
        tm.ucast_egress_port = 9;
        tm.qid = hdr.m.queue[6:0];
        if (hdr.m.place == 1) {
            dprsr.adv_flow_ctl = hdr.m.message;
        }
    }
}
control ID(packet_out p, inout headers hdr, in metadata md, in ingress_intrinsic_metadata_for_deparser_t dprsr) {
    apply { p.emit(hdr); }
}
parser EP(packet_in p, out headers hdr, out metadata md, out egress_intrinsic_metadata_t eg) {
    state start { p.extract(eg); p.extract(hdr.m); transition accept; }
}
control E(inout headers hdr, inout metadata md, in egress_intrinsic_metadata_t eg,
          in egress_intrinsic_metadata_from_parser_t prsr, inout egress_intrinsic_metadata_for_deparser_t dprsr,
          inout egress_intrinsic_metadata_for_output_port_t port) {
    apply {
        if (hdr.m.place == 2) {
            dprsr.adv_flow_ctl = hdr.m.message;
        }
    }
}
control ED(packet_out p, inout headers hdr, in metadata md, in egress_intrinsic_metadata_for_deparser_t dprsr) {
    apply { p.emit(hdr); }
}

Pipeline(IP(), I(), ID(), EP(), E(), ED()) pipe;
Switch(pipe) main;
