// The ways of a packet on Tofino: what it asks for is in its first byte.
#include <core.p4>
#include <tna.p4>

header request_t {
    bit<8>  what;
    bit<8>  port;
    bit<16> value;
}
// Header that ingress, a mirror session or a resubmission puts in front of a packet.
header front_t {
    bit<8>  kind;
    bit<8>  from;
}
struct headers { front_t front; request_t request; }
struct metadata { bit<8> resubmitted; MirrorId_t session; front_t unset; }

parser IP(packet_in p, out headers hdr, out metadata md, out ingress_intrinsic_metadata_t ig) {
    state start {
        p.extract(ig);
        md.resubmitted = 0;
        md.session = 0;
        transition select(ig.resubmit_flag) {
            1: resubmitted;
            default: port;
        }
    }
    state resubmitted {
        front_t again = p.lookahead<front_t>();
        md.resubmitted = again.from;
        p.advance(PORT_METADATA_SIZE);
        transition request;
    }
    state port {
        p.advance(PORT_METADATA_SIZE);
        transition request;
    }
    state request {
        p.extract(hdr.request);
        transition select(hdr.request.what) {
            0x00 &&& 0x80: accept;
            0x83: reject;
        }
    }
}

control I(inout headers hdr, inout metadata md, in ingress_intrinsic_metadata_t ig,
          in ingress_intrinsic_metadata_from_parser_t prsr, inout ingress_intrinsic_metadata_for_deparser_t dprsr,
          inout ingress_intrinsic_metadata_for_tm_t tm) {
    action front() {
        hdr.front.setValid();
        hdr.front.kind = 1;
        hdr.front.from = (bit<8>)ig.ingress_port;
    }
    action send(bit<8> port) {
        tm.ucast_egress_port = (PortId_t)port;
    }
    apply {
        front();
        if (hdr.request.what == 1 || hdr.request.what == 0x83) {
            send(hdr.request.port);
            tm.qid = 3;
        } else if (hdr.request.what == 2) {
            tm.mcast_grp_a = 1;
            tm.rid = 7;
            tm.level2_exclusion_id = ig.ingress_port;
        } else if (hdr.request.what == 3) {
            send(hdr.request.port);
            tm.bypass_egress = 1;
        } else if (hdr.request.what == 4) {
            send(hdr.request.port);
            dprsr.drop_ctl = 1;
        } else if (hdr.request.what == 5) {
            dprsr.mirror_type = 1;
            md.session = 5;
            dprsr.drop_ctl = 1;
        } else if (hdr.request.what == 6) {
            if (md.resubmitted == 0) {
                dprsr.resubmit_type = 0;
            } else {
                send(md.resubmitted);
            }
        } else if (hdr.request.what == 7) {
            send(hdr.request.port);
            invalidate(tm.ucast_egress_port);
        } else if (hdr.request.what == 8) {
            hdr.request.what = 1;
            hdr.front.setInvalid();
            tm.bypass_egress = 1;
            send(68);
        } else if (hdr.request.what == 9) {
            send(hdr.request.port);
            tm.mcast_grp_b = 1;
        } else if (hdr.request.what == 10) {
            send(hdr.request.port);
            exit;
        } else if (hdr.request.what == 11) {
            hdr.front.setInvalid();
            hdr.front.from = 0x77;
            hdr.front.setValid();
            send(hdr.request.port);
        } else if (hdr.request.what == 12) {
            if (md.resubmitted == 0) {
                md.unset.kind = 4;
                md.unset.from = hdr.request.port;
                dprsr.resubmit_type = 7;
            } else {
                send(md.resubmitted);
            }
        } else if (hdr.request.what == 13) {
            send(hdr.request.port);
            tm.qid = (bit<5>)hdr.request.value;
        } else {
            send(hdr.request.port);
        }
    }
}

control ID(packet_out p, inout headers hdr, in metadata md, in ingress_intrinsic_metadata_for_deparser_t dprsr) {
    Mirror(1) mirror;
    Resubmit() resubmit;
    apply {
        mirror.emit<front_t>(md.session, { 2, 0xaa });
        // Packets that have not written it are of no type.
        if (dprsr.resubmit_type == 0) {
            resubmit.emit<front_t>({ 3, hdr.request.port });
        } else if (dprsr.resubmit_type == 7) {
            resubmit.emit(md.unset);
        }
        p.emit(hdr);
    }
}

parser EP(packet_in p, out headers hdr, out metadata md, out egress_intrinsic_metadata_t eg) {
    state start {
        p.extract(eg);
        p.extract(hdr.front);
        p.extract(hdr.request);
        transition accept;
    }
}

control E(inout headers hdr, inout metadata md, in egress_intrinsic_metadata_t eg,
          in egress_intrinsic_metadata_from_parser_t prsr, inout egress_intrinsic_metadata_for_deparser_t dprsr,
          inout egress_intrinsic_metadata_for_output_port_t port) {
    apply {
        hdr.request.value = eg.pkt_length;
        hdr.request.port = (bit<8>)eg.egress_rid;
        if (hdr.request.what == 1) {
            hdr.request.port = (bit<8>)eg.egress_qid;
        } else if (hdr.request.what == 13) {
            hdr.front.from = (bit<8>)eg.egress_qid;
        }
        if (hdr.front.from == 9) {
            dprsr.drop_ctl = 1;
        }
    }
}

control ED(packet_out p, inout headers hdr, in metadata md, in egress_intrinsic_metadata_for_deparser_t dprsr) {
    apply {
        p.emit(hdr.front);
        p.emit(hdr.request);
    }
}

Pipeline(IP(), I(), ID(), EP(), E(), ED()) pipe;
Switch(pipe) main;
