// P4Info of objects beside their ids: annotations of both forms, documentation, limits.
#include <core.p4>
#include <v1model.p4>

#define OWNER "fabric"

// Values of annotations may be named constants.
const string PREFIX = "in";
const bit<32> GROUP = 16;
const bit<32> WIDTH = 32;
const int FACTOR = 11;

enum bit<16> Numbers {
    pad = 7,
    weight = 100
}

@custom("of the type")
@p4runtime_translation("port", bit<WIDTH>)
type bit<9> PortId_t;
type PortId_t Uplink_t;

struct origin_t {
    bit<9> port;
    @id(Numbers.pad)
    bit<7> pad;
}

@controller_header("packet_out")
header packet_out_t {
    origin_t origin;
    @brief("where it goes")
    bit<16> target;
}

header pair_t {
    bit<16> a;
    @name("second")
    bit<16> b;
}

struct keys_t {
    @name("flow")
    bit<8> hidden_name;
    @name(".absolute")
    pair_t inner;
}

struct headers_t {
    packet_out_t packet_out;
    @name("couples")
    pair_t[2] pairs;
}

struct metadata_t {
    @name("renamed")
    keys_t keys;
    Uplink_t uplink;
    bit<1> index;
    PortId_t last_port;
    error problem;
}

parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    state start {
        packet.extract(hdr.pairs.next);
        packet.extract(hdr.pairs.next);
        transition accept;
    }
}

control FromPort(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    @max_group_size(GROUP)
    @selector_size_semantics("sum_of_members")
    @max_member_weight(Numbers.weight)
    action_selector(HashAlgorithm.crc16, 128, 16) by_members;

    @description("Sends the packet.")
    action forward(@brief("output port") @name("output") bit<9> port, @custom(1, "x") Uplink_t uplink) {
        standard.egress_spec = port;
        meta.uplink = uplink;
    }

    @brief("routes") @description("One for each destination.")
    @owner[OWNER, FACTOR * 3, true]
    @restriction("
        a != 0 -> \"x\";
    ")
    @limits[soft = 10, hard = -1]
    table routes {
        key = {
            meta.keys.hidden_name: exact;
            meta.keys.inner.a: exact;
            hdr.pairs[meta.index].a: exact @brief("of the chosen pair");
            hdr.pairs[1].isValid(): exact;
            hdr.pairs[0].b & 0x0ff: exact;
            meta.problem: exact;
            meta.uplink: exact @hidden;
            hdr.pairs[0].a: selector;
        }
        actions = {
            @brief("has no place in P4Info") @weight[1]
            forward;
            NoAction;
        }
        implementation = by_members;
    }
    table by_priority {
        key = { hdr.pairs[0].a: ternary; }
        actions = { NoAction; }
        @noWarn("deprecated") const entries = {
            1 &&& 3: NoAction() @priority(WIDTH);
            2 &&& 3: NoAction() @priority(WIDTH / 2);
        }
    }
    table inline_selector {
        key = {
            hdr.pairs[0].a: exact;
            hdr.pairs[0].b: selector;
        }
        actions = { NoAction; }
        @name(PREFIX ++ "line") @max_group_size(8) @selector_size_semantics("SUM_OF_WEIGHTS")
        implementation = action_selector(HashAlgorithm.crc32, 64, 8);
    }

    apply {
        meta.last_port = 0;
        routes.apply();
        by_priority.apply();
        inline_selector.apply();
    }
}

control ToPort(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply {}
}

control Checksum(inout headers_t hdr, inout metadata_t meta) {
    apply {}
}

control Deparse(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.pairs);
    }
}

@pkginfo(name = "de" ++ "scribed", version = "1")
@brief("A program to be described")
@platform_property(multicast_group_table_size = WIDTH - 22, multicast_group_table_total_replicas = 20)
V1Switch(Parse(), Checksum(), FromPort(), ToPort(), Checksum(), Deparse()) main;
