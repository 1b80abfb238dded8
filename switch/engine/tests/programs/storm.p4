// Packets that make copies of themselves in every pass, in as many ways as there are. The first byte says which.
#include <core.p4>
#include <v1model.p4>

const bit<8> MULTICAST = 0;
const bit<8> CLONE_INGRESS = 1;
const bit<8> CLONE_EGRESS = 2;
const bit<8> CLONE_AND_RESUBMIT = 3;
// Goes round 60 times with one copy each time, which leaves at once.
const bit<8> GENERATOR = 4;

const bit<32> EGRESS_CLONE = 2;

header kind_t {
    bit<8> kind;
    bit<8> passes;
}

struct headers_t {
    kind_t kind;
}

struct metadata_t {}

parser ParserImpl(packet_in packet, out headers_t hdr, inout metadata_t meta,
                  inout standard_metadata_t standard_metadata) {
    state start {
        packet.extract(hdr.kind);
        transition accept;
    }
}

control VerifyImpl(inout headers_t hdr, inout metadata_t meta) { apply {} }

control IngressImpl(inout headers_t hdr, inout metadata_t meta,
                    inout standard_metadata_t standard_metadata) {
    apply {
        standard_metadata.egress_spec = 1;
        if (hdr.kind.kind == MULTICAST) {
            standard_metadata.mcast_grp = 1;
        } else if (hdr.kind.kind == CLONE_INGRESS) {
            clone(CloneType.I2E, 1);
        } else if (hdr.kind.kind == CLONE_AND_RESUBMIT) {
            clone(CloneType.I2E, 1);
            resubmit_preserving_field_list(0);
        }
    }
}

control EgressImpl(inout headers_t hdr, inout metadata_t meta,
                   inout standard_metadata_t standard_metadata) {
    apply {
        hdr.kind.passes = hdr.kind.passes + 1;
        if (hdr.kind.kind == GENERATOR) {
            if (standard_metadata.instance_type != EGRESS_CLONE && hdr.kind.passes < 60) {
                clone(CloneType.E2E, 1);
                recirculate_preserving_field_list(0);
            }
        } else {
            if (hdr.kind.kind == CLONE_EGRESS) {
                clone(CloneType.E2E, 1);
            }
            recirculate_preserving_field_list(0);
        }
    }
}

control ComputeImpl(inout headers_t hdr, inout metadata_t meta) { apply {} }

control DeparserImpl(packet_out packet, in headers_t hdr) {
    apply { packet.emit(hdr.kind); }
}

V1Switch(ParserImpl(), VerifyImpl(), IngressImpl(), EgressImpl(), ComputeImpl(), DeparserImpl()) main;
