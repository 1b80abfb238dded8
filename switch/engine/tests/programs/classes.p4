// Switches by destination MAC address; the low three bits of the type are the queue. A packet takes
// along what it finds in two registers about the queue that it goes to.
#include <core.p4>
#include <v1model.p4>

header ethernet_t {
    bit<48> dst;
    bit<48> src;
    bit<16> ether_type;
}

header seen_t {
    bit<32> drain_bytes;
    bit<32> depth_packets;
}

struct headers_t {
    ethernet_t ethernet;
    seen_t seen;
}

struct metadata_t {
    bit<16> rank;
    bit<8> flow;
    bit<48> wide;
}

register<bit<32>>(40) drain_bytes;
register<bit<32>>(40) depth_packets;
register<bit<20>>(40) narrow;

parser ParserImpl(packet_in packet, out headers_t hdr, inout metadata_t meta,
                  inout standard_metadata_t standard_metadata) {
    state start {
        packet.extract(hdr.ethernet);
        packet.extract(hdr.seen);
        transition accept;
    }
}

control VerifyImpl(inout headers_t hdr, inout metadata_t meta) { apply {} }

control IngressImpl(inout headers_t hdr, inout metadata_t meta,
                    inout standard_metadata_t standard_metadata) {
    action drop() { mark_to_drop(standard_metadata); }
    action forward(bit<9> port) { standard_metadata.egress_spec = port; }
    action multicast(bit<16> group) { standard_metadata.mcast_grp = group; }

    table dmac {
        key = { hdr.ethernet.dst: exact @name("dst"); }
        actions = { forward; multicast; drop; }
        default_action = drop();
        size = 64;
    }

    apply {
        standard_metadata.priority = (bit<3>)hdr.ethernet.ether_type;
        dmac.apply();
        bit<32> cell = (bit<32>)standard_metadata.egress_spec << 3;
        cell = cell + (bit<32>)standard_metadata.priority;
        drain_bytes.read(hdr.seen.drain_bytes, cell);
        depth_packets.read(hdr.seen.depth_packets, cell);
        meta.rank = hdr.ethernet.src[15:0];
        meta.flow = hdr.ethernet.src[23:16];
        meta.wide = hdr.ethernet.src;
        // A register that the program never uses is not in what the compiler makes of it.
        if (hdr.ethernet.ether_type == 0xffff) { narrow.write(cell, 0); }
    }
}

control EgressImpl(inout headers_t hdr, inout metadata_t meta,
                   inout standard_metadata_t standard_metadata) { apply {} }

control ComputeImpl(inout headers_t hdr, inout metadata_t meta) { apply {} }

control DeparserImpl(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.ethernet);
        packet.emit(hdr.seen);
    }
}

V1Switch(ParserImpl(), VerifyImpl(), IngressImpl(), EgressImpl(), ComputeImpl(),
         DeparserImpl()) main;
