// The v1model architecture: the declarations that programs for BMv2's simple_switch are written against.
// Names and signatures are those of the interface; see docs/simple_switch.md of BMv2 for the meaning.
#ifndef _V1_MODEL_P4_
#define _V1_MODEL_P4_

#include <core.p4>

// Versions from 20200408 on let externs choose the type of their index.
#ifndef V1MODEL_VERSION
#define V1MODEL_VERSION 20180101
#endif

#if V1MODEL_VERSION >= 20200408
#define EBB_INDEX_PARAM <I>
#define EBB_INDEX_PARAM_AFTER , I
#define EBB_INDEX I
typedef bit<9> PortId_t;
#else
#define EBB_INDEX_PARAM
#define EBB_INDEX_PARAM_AFTER
#define EBB_INDEX bit<32>
#endif

const bit<32> __v1model_version = V1MODEL_VERSION;

match_kind {
    range,
    optional,   // exact or anything
    selector    // input of an action selector's hash
}

// Metadata of the switch about a packet. @alias gives the name that BMv2 uses for a field.
@metadata @name("standard_metadata")
struct standard_metadata_t {
    bit<9>  ingress_port;
    bit<9>  egress_spec;        // 511 drops
    bit<9>  egress_port;
    bit<32> instance_type;      // 0 normal, 1 ingress clone, 2 egress clone, 4 recirculated, 5 replica, 6 resubmitted
    bit<32> packet_length;      // bytes
    @alias("queueing_metadata.enq_timestamp")
    bit<32> enq_timestamp;      // us
    @alias("queueing_metadata.enq_qdepth")
    bit<19> enq_qdepth;
    @alias("queueing_metadata.deq_timedelta")
    bit<32> deq_timedelta;      // us
    @alias("queueing_metadata.deq_qdepth")
    bit<19> deq_qdepth;
    @alias("intrinsic_metadata.ingress_global_timestamp")
    bit<48> ingress_global_timestamp;   // us
    @alias("intrinsic_metadata.egress_global_timestamp")
    bit<48> egress_global_timestamp;    // us
    @alias("intrinsic_metadata.mcast_grp")
    bit<16> mcast_grp;          // 0: no multicast
    @alias("intrinsic_metadata.egress_rid")
    bit<16> egress_rid;
    bit<1>  checksum_error;     // set by verify_checksum
    error   parser_error;
    @alias("intrinsic_metadata.priority")
    bit<3>  priority;           // queue, 7 first
}

enum CounterType {
    packets,
    bytes,
    packets_and_bytes
}

enum MeterType {
    packets,
    bytes
}

extern counter EBB_INDEX_PARAM {
    counter(bit<32> size, CounterType type);
    void count(in EBB_INDEX index);
}

// Counts the hits of each entry of the table it is attached to.
extern direct_counter {
    direct_counter(CounterType type);
    void count();
}

#define V1MODEL_METER_COLOR_GREEN  0
#define V1MODEL_METER_COLOR_YELLOW 1
#define V1MODEL_METER_COLOR_RED    2

extern meter EBB_INDEX_PARAM {
    meter(bit<32> size, MeterType type);
    void execute_meter<T>(in EBB_INDEX index, out T result);
}

extern direct_meter<T> {
    direct_meter(MeterType type);
    void read(out T result);
}

extern register<T EBB_INDEX_PARAM_AFTER> {
    register(bit<32> size);
    void read(out T result, in EBB_INDEX index);
    void write(in EBB_INDEX index, in T value);
}

extern action_profile {
    action_profile(bit<32> size);
}

// Uniform in [lo, hi].
extern void random<T>(out T result, in T lo, in T hi);

extern void digest<T>(in bit<32> receiver, in T data);

enum HashAlgorithm {
    crc32,
    crc32_custom,
    crc16,
    crc16_custom,
    random,
    identity,
    csum16,
    xor16
}

@deprecated("use mark_to_drop(standard_metadata)") extern void mark_to_drop();
extern void mark_to_drop(inout standard_metadata_t standard_metadata);

// result = base + hash(data) mod max
extern void hash<O, T, D, M>(out O result, in HashAlgorithm algo, in T base, in D data, in M max);

extern action_selector {
    action_selector(HashAlgorithm algorithm, bit<32> size, bit<32> outputWidth);
}

enum CloneType {
    I2E,
    E2E
}

@deprecated("use verify_checksum and update_checksum") extern Checksum16 {
    Checksum16();
    bit<16> get<D>(in D data);
}

extern void verify_checksum<T, O>(in bool condition, in T data, in O checksum, HashAlgorithm algo);
extern void update_checksum<T, O>(in bool condition, in T data, inout O checksum, HashAlgorithm algo);
extern void verify_checksum_with_payload<T, O>(in bool condition, in T data, in O checksum, HashAlgorithm algo);
extern void update_checksum_with_payload<T, O>(in bool condition, in T data, inout O checksum, HashAlgorithm algo);

extern void clone(in CloneType type, in bit<32> session);
extern void clone_preserving_field_list(in CloneType type, in bit<32> session, bit<8> index);
@deprecated("use clone_preserving_field_list") extern void clone3<T>(in CloneType type, in bit<32> session, in T data);
@deprecated("use resubmit_preserving_field_list") extern void resubmit<T>(in T data);
extern void resubmit_preserving_field_list(bit<8> index);
@deprecated("use recirculate_preserving_field_list") extern void recirculate<T>(in T data);
extern void recirculate_preserving_field_list(bit<8> index);
extern void truncate(in bit<32> length);

extern void assert(in bool check);
extern void assume(in bool check);
extern void log_msg(string msg);
extern void log_msg<T>(string msg, in T data);

// The programmable blocks, in the order packets meet them.
parser Parser<H, M>(packet_in b,
                    out H parsedHdr,
                    inout M meta,
                    inout standard_metadata_t standard_metadata);

control VerifyChecksum<H, M>(inout H hdr,
                             inout M meta);

@pipeline
control Ingress<H, M>(inout H hdr,
                      inout M meta,
                      inout standard_metadata_t standard_metadata);

@pipeline
control Egress<H, M>(inout H hdr,
                     inout M meta,
                     inout standard_metadata_t standard_metadata);

control ComputeChecksum<H, M>(inout H hdr,
                              inout M meta);

@deparser
control Deparser<H>(packet_out b, in H hdr);

package V1Switch<H, M>(Parser<H, M> p,
                       VerifyChecksum<H, M> vr,
                       Ingress<H, M> ig,
                       Egress<H, M> eg,
                       ComputeChecksum<H, M> ck,
                       Deparser<H> dep);

#endif
