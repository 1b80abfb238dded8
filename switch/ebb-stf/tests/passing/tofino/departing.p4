// Counters of Tofino 2 that count the bytes which leave the deparser of egress, and partitions of a table.
#include <core.p4>
#include <t2na.p4>

header request_t { bit<8> what; bit<24> rest; }
header more_t { bit<32> bytes; }
struct headers { request_t request; more_t more; }
struct metadata { bit<8> part; }

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
    action send(bit<8> port) { tm.ucast_egress_port = (PortId_t)port; }
    Atcam(4) partitions;
    table t {
        key = { md.part : atcam_partition_index; hdr.request.what : ternary; }
        actions = { send; NoAction; }
        atcam = partitions;
        size = 16;
    }
    apply {
        md.part = 1;
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
        p.extract(hdr.more);
        transition accept;
    }
}
control E(inout headers hdr, inout metadata md, in egress_intrinsic_metadata_t eg,
          in egress_intrinsic_metadata_from_parser_t prsr, inout egress_intrinsic_metadata_for_deparser_t dprsr,
          inout egress_intrinsic_metadata_for_output_port_t port) {
    Counter<bit<32>, bit<8>>(4, CounterType_t.PACKETS_AND_BYTES, true) departing;
    Counter<bit<32>, bit<8>>(4, CounterType_t.PACKETS_AND_BYTES) arriving;
    apply {
        departing.count(hdr.request.what);
        arriving.count(hdr.request.what);
        hdr.more.setInvalid();
    }
}
control ED(packet_out p, inout headers hdr, in metadata md, in egress_intrinsic_metadata_for_deparser_t dprsr) {
    apply { p.emit(hdr); }
}

Pipeline(IP(), I(), ID(), EP(), E(), ED()) pipe;
Switch(pipe) main;
