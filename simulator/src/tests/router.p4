// Routes IPv4 by its exact destination. Control and trimmed packets go to queue 7, TCP of priority to
// queue 1, all others to queue 0; what does not fit there and may be trimmed is cut after the header of the receiver-driven
// transports.
#include <core.p4>
#include <v1model.p4>

const bit<32> DEFLECTED = 7;
const bit<6> DSCP_TRIMMABLE = 10;
const bit<6> DSCP_TRIMMED = 12;
const bit<6> DSCP_CONTROL = 46;
const bit<6> DSCP_PRIORITY = 34;
const bit<16> IPV4_AND_EBB_BYTES = 68;

header ethernet_t {
    bit<48> dst;
    bit<48> src;
    bit<16> ether_type;
}

header ipv4_t {
    bit<4> version;
    bit<4> ihl;
    bit<6> dscp;
    bit<2> ecn;
    bit<16> total_len;
    bit<16> identification;
    bit<3> flags;
    bit<13> fragment;
    bit<8> ttl;
    bit<8> protocol;
    bit<16> checksum;
    bit<32> src;
    bit<32> dst;
}

struct headers_t {
    ethernet_t ethernet;
    ipv4_t ipv4;
}

struct metadata_t {}

parser ParserImpl(packet_in packet, out headers_t hdr, inout metadata_t meta,
                  inout standard_metadata_t standard_metadata) {
    state start {
        packet.extract(hdr.ethernet);
        packet.extract(hdr.ipv4);
        transition accept;
    }
}

control VerifyImpl(inout headers_t hdr, inout metadata_t meta) { apply {} }

control IngressImpl(inout headers_t hdr, inout metadata_t meta,
                    inout standard_metadata_t standard_metadata) {
    action drop() { mark_to_drop(standard_metadata); }
    action forward(bit<9> port, bit<48> mac) {
        standard_metadata.egress_spec = port;
        hdr.ethernet.dst = mac;
    }
    action multicast(bit<16> group) {
        standard_metadata.mcast_grp = group;
        hdr.ethernet.dst = 48w0x01005e000000;
    }

    table route {
        key = { hdr.ipv4.dst: exact @name("dst"); }
        actions = { forward; multicast; drop; }
        default_action = drop();
        size = 1024;
    }

    apply {
        if (standard_metadata.instance_type == DEFLECTED) {
            if (hdr.ipv4.dscp == DSCP_TRIMMABLE) {
                standard_metadata.egress_spec = standard_metadata.egress_port;
                standard_metadata.priority = 7;
                hdr.ipv4.dscp = DSCP_TRIMMED;
                hdr.ipv4.total_len = IPV4_AND_EBB_BYTES;
                truncate(82);
            } else {
                drop();
            }
        } else {
            route.apply();
            if (hdr.ipv4.dscp == DSCP_CONTROL || hdr.ipv4.dscp == DSCP_TRIMMED) {
                standard_metadata.priority = 7;
            } else if (hdr.ipv4.dscp == DSCP_PRIORITY) {
                standard_metadata.priority = 1;
            }
        }
    }
}

control EgressImpl(inout headers_t hdr, inout metadata_t meta,
                   inout standard_metadata_t standard_metadata) {
    apply {
        // Towards all members but the one where it came from.
        if (standard_metadata.egress_rid != 0 &&
            standard_metadata.egress_port == standard_metadata.ingress_port) {
            mark_to_drop(standard_metadata);
        }
    }
}

control ComputeImpl(inout headers_t hdr, inout metadata_t meta) {
    apply {
        update_checksum(true,
            { hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.dscp, hdr.ipv4.ecn, hdr.ipv4.total_len,
              hdr.ipv4.identification, hdr.ipv4.flags, hdr.ipv4.fragment, hdr.ipv4.ttl,
              hdr.ipv4.protocol, hdr.ipv4.src, hdr.ipv4.dst },
            hdr.ipv4.checksum, HashAlgorithm.csum16);
    }
}

control DeparserImpl(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.ethernet);
        packet.emit(hdr.ipv4);
    }
}

V1Switch(ParserImpl(), VerifyImpl(), IngressImpl(), EgressImpl(), ComputeImpl(), DeparserImpl()) main;
