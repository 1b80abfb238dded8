// Packets of the generator of a pipe go to port 2 with the generator's header in front; other packets come round
// once by port 68, and leave by port 3. Those that begin with 0xfc go to port 2 and the CPU, unless their last bits, which
// become drop_ctl, say otherwise.
#include <core.p4>
#include <tna.p4>

header mark_t { bit<32> mark; }
struct headers { mark_t mark; }
struct metadata { }

parser IP(packet_in p, out headers hdr, out metadata md, out ingress_intrinsic_metadata_t ig) {
    state start {
        p.extract(ig);
        p.advance(PORT_METADATA_SIZE);
        p.extract(hdr.mark);
        transition accept;
    }
}
control I(inout headers hdr, inout metadata md, in ingress_intrinsic_metadata_t ig,
          in ingress_intrinsic_metadata_from_parser_t prsr, inout ingress_intrinsic_metadata_for_deparser_t dprsr,
          inout ingress_intrinsic_metadata_for_tm_t tm) {
    apply {
        tm.bypass_egress = 1;
        if (hdr.mark.mark[31:24] == 0xfc) {
            tm.ucast_egress_port = 2;
            tm.copy_to_cpu = 1;
            dprsr.drop_ctl = hdr.mark.mark[2:0];
        } else if (ig.ingress_port != 68) {
            tm.ucast_egress_port = 68;
        } else if (hdr.mark.mark[31:24] == 0xfe) {
            tm.ucast_egress_port = 3;
        } else {
            tm.ucast_egress_port = 2;
        }
    }
}
control ID(packet_out p, inout headers hdr, in metadata md, in ingress_intrinsic_metadata_for_deparser_t dprsr) {
    apply { p.emit(hdr); }
}
parser EP(packet_in p, out headers hdr, out metadata md, out egress_intrinsic_metadata_t eg) {
    state start { p.extract(eg); transition accept; }
}
control E(inout headers hdr, inout metadata md, in egress_intrinsic_metadata_t eg,
          in egress_intrinsic_metadata_from_parser_t prsr, inout egress_intrinsic_metadata_for_deparser_t dprsr,
          inout egress_intrinsic_metadata_for_output_port_t port) {
    apply { }
}
control ED(packet_out p, inout headers hdr, in metadata md, in egress_intrinsic_metadata_for_deparser_t dprsr) {
    apply { p.emit(hdr); }
}

Pipeline(IP(), I(), ID(), EP(), E(), ED()) pipe;
Switch(pipe) main;
