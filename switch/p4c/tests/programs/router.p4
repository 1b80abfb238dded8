// A plain IPv4 router: lpm table, action selector, checksum, counters.
#include <core.p4>
#include <v1model.p4>

const bit<16> TYPE_IPV4 = 0x800;

header ethernet_t {
    bit<48> dst_addr;
    bit<48> src_addr;
    bit<16> ether_type;
}

header ipv4_t {
    bit<4>  version;
    bit<4>  ihl;
    bit<8>  diffserv;
    bit<16> total_len;
    bit<16> identification;
    bit<3>  flags;
    bit<13> frag_offset;
    bit<8>  ttl;
    bit<8>  protocol;
    bit<16> hdr_checksum;
    bit<32> src_addr;
    bit<32> dst_addr;
}

struct headers { ethernet_t ethernet; ipv4_t ipv4; }
struct metadata { @field_list(1) bit<16> flow; }

parser RouterParser(packet_in packet, out headers hdr, inout metadata meta, inout standard_metadata_t sm) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.ether_type) {
            TYPE_IPV4: parse_ipv4;
            0x86dd &&& 0xfffd: reject;
            3 .. 5: reject;
            default: accept;
        }
    }
    state parse_ipv4 {
        packet.extract(hdr.ipv4);
        verify(hdr.ipv4.ihl == 5, error.HeaderTooShort);
        transition accept;
    }
}

control RouterVerify(inout headers hdr, inout metadata meta) {
    apply {
        verify_checksum(hdr.ipv4.isValid(),
            { hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.diffserv, hdr.ipv4.total_len, hdr.ipv4.identification,
              hdr.ipv4.flags, hdr.ipv4.frag_offset, hdr.ipv4.ttl, hdr.ipv4.protocol, hdr.ipv4.src_addr,
              hdr.ipv4.dst_addr }, hdr.ipv4.hdr_checksum, HashAlgorithm.csum16);
    }
}

control RouterIngress(inout headers hdr, inout metadata meta, inout standard_metadata_t sm) {
    direct_counter(CounterType.packets_and_bytes) route_hits;
    counter(512, CounterType.bytes) port_in;
    action_selector(HashAlgorithm.crc16, 128, 16) ecmp;

    action drop() { mark_to_drop(sm); }
    action set_next_hop(bit<9> port, bit<48> dst) {
        sm.egress_spec = port;
        hdr.ethernet.src_addr = hdr.ethernet.dst_addr;
        hdr.ethernet.dst_addr = dst;
        hdr.ipv4.ttl = hdr.ipv4.ttl - 1;
    }
    table ipv4_route {
        key = {
            hdr.ipv4.dst_addr : lpm @name("dst");
            meta.flow : selector;
        }
        actions = { set_next_hop; drop; @defaultonly NoAction; }
        implementation = ecmp;
        size = 1024;
    }
    table acl {
        key = {
            hdr.ipv4.src_addr : ternary @id(7);
            hdr.ipv4.protocol : optional;
            sm.ingress_port : range;
        }
        actions = { drop; NoAction; }
        const default_action = NoAction();
        const entries = {
            (0x0a000000 &&& 0xff000000, 17, 1 .. 3) : drop();
            (_, _, _) : NoAction();
        }
        counters = route_hits;
    }
    apply {
        port_in.count((bit<32>) sm.ingress_port);
        if (!hdr.ipv4.isValid() || sm.checksum_error == 1) {
            drop();
            exit;
        }
        hash(meta.flow, HashAlgorithm.crc16, 16w0, { hdr.ipv4.src_addr, hdr.ipv4.dst_addr, 8w6 }, 32w65536);
        switch (acl.apply().action_run) {
            drop: { return; }
            default: { ipv4_route.apply(); }
        }
    }
}

control RouterEgress(inout headers hdr, inout metadata meta, inout standard_metadata_t sm) { apply { } }

control RouterChecksum(inout headers hdr, inout metadata meta) {
    apply {
        update_checksum(hdr.ipv4.isValid(),
            { hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.diffserv, hdr.ipv4.total_len, hdr.ipv4.identification,
              hdr.ipv4.flags, hdr.ipv4.frag_offset, hdr.ipv4.ttl, hdr.ipv4.protocol, hdr.ipv4.src_addr,
              hdr.ipv4.dst_addr }, hdr.ipv4.hdr_checksum, HashAlgorithm.csum16);
    }
}

control RouterDeparser(packet_out packet, in headers hdr) {
    apply { packet.emit(hdr.ethernet); packet.emit(hdr.ipv4); }
}

V1Switch(RouterParser(), RouterVerify(), RouterIngress(), RouterEgress(), RouterChecksum(), RouterDeparser()) main;
