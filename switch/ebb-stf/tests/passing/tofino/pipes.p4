// Two pipelines: each block adds its own letter to the way of a packet. The ports of the second one lead back to
// ingress. Both have a parser, a control and a deparser in common, whose table and register each has for itself.
#include <core.p4>
#include <tna.p4>

header request_t { bit<8> port; bit<8> count; bit<32> way; }
struct headers { request_t request; }
struct metadata { bit<32> of_port; }

struct port_metadata_t { bit<32> value; }

Register<bit<8>, bit<1>>(1, 0) passed;

parser IP(packet_in p, out headers hdr, out metadata md, out ingress_intrinsic_metadata_t ig) {
    state start {
        p.extract(ig);
        p.advance(PORT_METADATA_SIZE);
        p.extract(hdr.request);
        transition accept;
    }
}
control Common(inout headers hdr) {
    RegisterAction<bit<8>, bit<1>, bit<8>>(passed) next = {
        void apply(inout bit<8> value, out bit<8> result) {
            value = value + 1;
            result = value;
        }
    };
    apply { hdr.request.count = next.execute(0); }
}
control A(inout headers hdr, inout metadata md, in ingress_intrinsic_metadata_t ig,
          in ingress_intrinsic_metadata_from_parser_t prsr, inout ingress_intrinsic_metadata_for_deparser_t dprsr,
          inout ingress_intrinsic_metadata_for_tm_t tm) {
    Common() common;
    action send(bit<9> port) { tm.ucast_egress_port = port; }
    action here() { tm.ucast_egress_port = (bit<9>)hdr.request.port; }
    table t {
        key = { hdr.request.port : exact; }
        actions = { send; here; }
        default_action = here();
        size = 16;
    }
    apply {
        hdr.request.way = (hdr.request.way << 8) | 0x0a;
        common.apply(hdr);
        t.apply();
    }
}
control ID(packet_out p, inout headers hdr, in metadata md, in ingress_intrinsic_metadata_for_deparser_t dprsr) {
    apply { p.emit(hdr); }
}
parser EP(packet_in p, out headers hdr, out metadata md, out egress_intrinsic_metadata_t eg) {
    state start {
        p.extract(eg);
        p.extract(hdr.request);
        transition accept;
    }
}
control EA(inout headers hdr, inout metadata md, in egress_intrinsic_metadata_t eg,
           in egress_intrinsic_metadata_from_parser_t prsr, inout egress_intrinsic_metadata_for_deparser_t dprsr,
           inout egress_intrinsic_metadata_for_output_port_t port) {
    apply { hdr.request.way = (hdr.request.way << 8) | 0xea; }
}
control ED(packet_out p, inout headers hdr, in metadata md, in egress_intrinsic_metadata_for_deparser_t dprsr) {
    apply { p.emit(hdr); }
}

// The parser of the second pipeline has no case for a zero for a port, and it reads the error: the packet goes on.
parser IPB(packet_in p, out headers hdr, out metadata md, out ingress_intrinsic_metadata_t ig) {
    state start {
        p.extract(ig);
        port_metadata_t of_port = port_metadata_unpack<port_metadata_t>(p);
        md.of_port = of_port.value;
        p.extract(hdr.request);
        transition select (hdr.request.port) {
            6 : accept;
        }
    }
}
control B(inout headers hdr, inout metadata md, in ingress_intrinsic_metadata_t ig,
          in ingress_intrinsic_metadata_from_parser_t prsr, inout ingress_intrinsic_metadata_for_deparser_t dprsr,
          inout ingress_intrinsic_metadata_for_tm_t tm) {
    Common() common;
    apply {
        hdr.request.way = (hdr.request.way << 8) | 0x0b;
        if (prsr.parser_err == 0) {
            common.apply(hdr);
            tm.ucast_egress_port = (bit<9>)hdr.request.port;
        } else {
            tm.ucast_egress_port = 9;
        }
    }
}
control EB(inout headers hdr, inout metadata md, in egress_intrinsic_metadata_t eg,
           in egress_intrinsic_metadata_from_parser_t prsr, inout egress_intrinsic_metadata_for_deparser_t dprsr,
           inout egress_intrinsic_metadata_for_output_port_t port) {
    apply { hdr.request.way = (hdr.request.way << 8) | 0xeb; }
}

Pipeline(IP(), A(), ID(), EP(), EA(), ED()) outer;
Pipeline(IPB(), B(), ID(), EP(), EB(), ED()) inner;
Switch(outer, inner) main;
