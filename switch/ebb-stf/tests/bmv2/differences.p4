// Differences between our switch and BMv2, and behaviour that is alike though one may doubt it (docs/targets.md). First
// byte of a packet says which of it.
#include <core.p4>
#include <v1model.p4>

const bit<8> INVALID_HEADER = 0;
const bit<8> LENGTH_AFTER_TRUNCATE = 1;
const bit<8> MANY_PASSES = 2;
const bit<8> MANY_PARSER_STATES = 3;
const bit<8> ASSERT = 4;
const bit<8> RANDOM = 5;
const bit<8> WRITE_TO_INVALID = 6;
const bit<8> INDEX_OUT_OF_RANGE = 7;
const bit<8> PORT_OF_RESUBMITTED = 8;
const bit<8> PORT_OF_RECIRCULATED = 9;

header query_t {
    bit<8> kind;
    bit<8> error_seen;
    bit<32> result;
}

header other_t {
    bit<32> value;
}

struct headers_t {
    query_t query;
    other_t other;
}

struct metadata_t {
    bit<32> states;
}

parser ParserImpl(packet_in packet, out headers_t hdr, inout metadata_t meta,
                  inout standard_metadata_t standard_metadata) {
    state start {
        packet.extract(hdr.query);
        transition select(hdr.query.kind) {
            INVALID_HEADER: with_other;
            WRITE_TO_INVALID: with_other;
            MANY_PARSER_STATES: count;
            default: accept;
        }
    }
    state with_other {
        packet.extract(hdr.other);
        transition accept;
    }
    state count {
        meta.states = meta.states + 1;
        transition select(meta.states) {
            5000: accept;
            default: count;
        }
    }
}

control VerifyImpl(inout headers_t hdr, inout metadata_t meta) { apply {} }

control IngressImpl(inout headers_t hdr, inout metadata_t meta,
                    inout standard_metadata_t standard_metadata) {
    register<bit<32>>(4) values;
    apply {
        standard_metadata.egress_spec = 1;
        if (hdr.query.kind == INVALID_HEADER) {
            hdr.other.setInvalid();
            hdr.query.result = hdr.other.value;
        } else if (hdr.query.kind == WRITE_TO_INVALID) {
            hdr.other.setInvalid();
            hdr.other.value = 5;
            hdr.other.setValid();
            hdr.query.result = hdr.other.value;
        } else if (hdr.query.kind == LENGTH_AFTER_TRUNCATE) {
            truncate(7);
        } else if (hdr.query.kind == MANY_PARSER_STATES) {
            hdr.query.result = meta.states;
        } else if (hdr.query.kind == ASSERT) {
            assert(hdr.query.result == 1);
        } else if (hdr.query.kind == INDEX_OUT_OF_RANGE) {
            bit<32> value = 5;
            values.write(hdr.query.result, 6);
            values.read(value, hdr.query.result);
            hdr.query.result = value;
        } else if (hdr.query.kind == RANDOM) {
            random(hdr.query.result, 32w0, 32w0xffffffff);
        } else if (hdr.query.kind == PORT_OF_RESUBMITTED || hdr.query.kind == PORT_OF_RECIRCULATED) {
            hdr.query.result = (bit<32>)standard_metadata.ingress_port;
            if (hdr.query.kind == PORT_OF_RESUBMITTED && standard_metadata.instance_type == 0) {
                resubmit_preserving_field_list(0);
            }
        }
        if (standard_metadata.parser_error != error.NoError) {
            hdr.query.error_seen = 1;
        }
    }
}

control EgressImpl(inout headers_t hdr, inout metadata_t meta,
                   inout standard_metadata_t standard_metadata) {
    apply {
        if (hdr.query.kind == LENGTH_AFTER_TRUNCATE) {
            hdr.query.result = standard_metadata.packet_length;
        } else if (hdr.query.kind == MANY_PASSES) {
            hdr.query.result = hdr.query.result + 1;
            if (hdr.query.result != 1000) {
                recirculate_preserving_field_list(0);
            }
        } else if (hdr.query.kind == PORT_OF_RECIRCULATED && hdr.query.error_seen == 0) {
            hdr.query.error_seen = 2;       // been here
            recirculate_preserving_field_list(0);
        }
    }
}

control ComputeImpl(inout headers_t hdr, inout metadata_t meta) { apply {} }

control DeparserImpl(packet_out packet, in headers_t hdr) {
    apply { packet.emit(hdr); }
}

V1Switch(ParserImpl(), VerifyImpl(), IngressImpl(), EgressImpl(), ComputeImpl(), DeparserImpl()) main;
