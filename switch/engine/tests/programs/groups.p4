// Copies of packets: what a packet asks for is in its first byte, the group and the exclusion follow.
#include <core.p4>
#include <tna.p4>

header request_t {
    bit<8>  what;
    bit<8>  port;
    bit<16> group;
    bit<16> excluded;
}
struct headers { request_t request; }
struct metadata {}

parser IP(packet_in p, out headers hdr, out metadata md, out ingress_intrinsic_metadata_t ig) {
    state start {
        p.extract(ig);
        p.advance(PORT_METADATA_SIZE);
        p.extract(hdr.request);
        transition accept;
    }
}
control I(inout headers hdr, inout metadata md, in ingress_intrinsic_metadata_t ig,
          in ingress_intrinsic_metadata_from_parser_t prsr, inout ingress_intrinsic_metadata_for_deparser_t dprsr,
          inout ingress_intrinsic_metadata_for_tm_t tm) {
    apply {
        // 0: neither a port nor a group. 1: a port. 2: a group. 3: both, and nothing is excluded.
        if (hdr.request.what == 1 || hdr.request.what == 3) {
            tm.ucast_egress_port = (PortId_t)hdr.request.port;
        }
        if (hdr.request.what == 2) {
            tm.level1_exclusion_id = hdr.request.excluded;
        }
        if (hdr.request.what == 2 || hdr.request.what == 3) {
            tm.mcast_grp_a = hdr.request.group;
        }
        tm.bypass_egress = 1;
    }
}
control ID(packet_out p, inout headers hdr, in metadata md, in ingress_intrinsic_metadata_for_deparser_t dprsr) {
    apply {
        p.emit(hdr);
    }
}
parser EP(packet_in p, out headers hdr, out metadata md, out egress_intrinsic_metadata_t eg) {
    state start {
        p.extract(eg);
        transition accept;
    }
}
control E(inout headers hdr, inout metadata md, in egress_intrinsic_metadata_t eg,
          in egress_intrinsic_metadata_from_parser_t prsr, inout egress_intrinsic_metadata_for_deparser_t dprsr,
          inout egress_intrinsic_metadata_for_output_port_t port) {
    apply {}
}
control ED(packet_out p, inout headers hdr, in metadata md, in egress_intrinsic_metadata_for_deparser_t dprsr) {
    apply {}
}
Pipeline(IP(), I(), ID(), EP(), E(), ED()) pipe;
Switch(pipe) main;
