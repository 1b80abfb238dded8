// A register counts the packets of each pipe; a packet has the ports that it leaves by, and gets the counts.
#include <core.p4>
#include <tna.p4>

header request_t {
    bit<16> port;
    bit<16> then;
    bit<16> first;
    bit<16> second;
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
    Register<bit<16>, bit<1>>(2) packets;
    RegisterAction<bit<16>, bit<1>, bit<16>>(packets) count = {
        void apply(inout bit<16> value, out bit<16> seen) {
            value = value + 1;
            seen = value;
        }
    };
    apply {
        hdr.request.second = hdr.request.first;
        hdr.request.first = count.execute(1);
        tm.ucast_egress_port = hdr.request.port[8:0];
        hdr.request.port = hdr.request.then;
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
