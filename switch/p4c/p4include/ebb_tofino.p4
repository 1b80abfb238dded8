// Declarations that TNA and T2NA have in common; EBB_TOFINO is the generation of the chip, 1 or 2.
#ifndef _EBB_TOFINO_P4_
#define _EBB_TOFINO_P4_

#include <core.p4>

// Widths of what the chip numbers, in bits.
#define PORT_ID_WIDTH             9
#define MULTICAST_GROUP_ID_WIDTH  16
#define RESUBMIT_TYPE_WIDTH       3
#define DIGEST_TYPE_WIDTH         3
#define REPLICATION_ID_WIDTH      16
#define L1_EXCLUSION_ID_WIDTH     16
#define L2_EXCLUSION_ID_WIDTH     9
#if EBB_TOFINO == 1
#define QUEUE_ID_WIDTH            5
#define MIRROR_TYPE_WIDTH         3
#define MIRROR_ID_WIDTH           10
#else
#define QUEUE_ID_WIDTH            7
#define MIRROR_TYPE_WIDTH         4
#define MIRROR_ID_WIDTH           8
#endif

typedef bit<PORT_ID_WIDTH>             PortId_t;
typedef bit<MULTICAST_GROUP_ID_WIDTH>  MulticastGroupId_t;
typedef bit<QUEUE_ID_WIDTH>            QueueId_t;
typedef bit<MIRROR_TYPE_WIDTH>         MirrorType_t;
typedef bit<MIRROR_ID_WIDTH>           MirrorId_t;
typedef bit<RESUBMIT_TYPE_WIDTH>       ResubmitType_t;
typedef bit<DIGEST_TYPE_WIDTH>         DigestType_t;
typedef bit<REPLICATION_ID_WIDTH>      ReplicationId_t;
typedef bit<L1_EXCLUSION_ID_WIDTH>     L1ExclusionId_t;
typedef bit<L2_EXCLUSION_ID_WIDTH>     L2ExclusionId_t;
typedef error                          ParserError_t;
#if EBB_TOFINO == 2
typedef MirrorType_t                   CloneId_t;
#endif

// A device port is the number of its pipe, 2 bits, and of the port in it, 7 bits.
#define DEVPORT_PIPE_MASK   0x180
#define DEVPORT_PIPE(port)  (port)[8:7]
#define DEVPORT_PORT_MASK   0x7f
#define DEVPORT_PORT(port)  (port)[6:0]

#define PACK_VERSION(a, b, c) (((a) << 24) + ((b) << 12) + (c))
#define COMPILER_VERSION PACK_VERSION(__p4c_major__, __p4c_minor__, __p4c_patchlevel__)

// Bits of `parser_err`.
const bit<16> PARSER_ERROR_OK           = 0x0000;
const bit<16> PARSER_ERROR_NO_MATCH     = 0x0001;
const bit<16> PARSER_ERROR_PARTIAL_HDR  = 0x0002;
const bit<16> PARSER_ERROR_CTR_RANGE    = 0x0004;
const bit<16> PARSER_ERROR_TIMEOUT_USER = 0x0008;
const bit<16> PARSER_ERROR_TIMEOUT_HW   = 0x0010;
const bit<16> PARSER_ERROR_SRC_EXT      = 0x0020;
#if EBB_TOFINO == 1
const bit<16> PARSER_ERROR_DST_CONT     = 0x0040;
#endif
const bit<16> PARSER_ERROR_PHV_OWNER    = 0x0080;
const bit<16> PARSER_ERROR_MULTIWRITE   = 0x0100;
const bit<16> PARSER_ERROR_ARAM_MBE     = 0x0400;
const bit<16> PARSER_ERROR_FCS          = 0x0800;
#if EBB_TOFINO == 2
const bit<16> PARSER_ERROR_CSUM_MBE     = 0x1000;
#endif

enum MeterType_t { PACKETS, BYTES }
enum bit<8> MeterColor_t { GREEN = 0, YELLOW = 1, RED = 3 }
enum CounterType_t { PACKETS, BYTES, PACKETS_AND_BYTES }
enum SelectorMode_t { FAIR, RESILIENT }
enum HashAlgorithm_t {
    IDENTITY, RANDOM,
    XOR8, XOR16, XOR32,
    CRC8, CRC16, CRC32, CRC64,
    CUSTOM      // the polynomial is a CRCPolynomial
}
enum MathOp_t { MUL, SQR, SQRT, DIV, RSQR, RSQRT }

match_kind {
    range,
    selector,               // input of an action selector's hash
#if EBB_TOFINO == 2
    dleft_hash,
#endif
    atcam_partition_index   // partition of an algorithmic TCAM
}

error { CounterRange, Timeout, PhvOwner, MultiWrite, IbufOverflow, IbufUnderflow }

// ---- Intrinsic metadata. Times are nanoseconds, depths cells of the buffer.

// In front of each packet at the ingress parser.
@__intrinsic_metadata
header ingress_intrinsic_metadata_t {
    bit<1>          resubmit_flag;      // 1: resubmitted
    @padding bit<1> _pad1;
    bit<2>          packet_version;
    @padding bit<(4 - PORT_ID_WIDTH % 8)> _pad2;
    PortId_t        ingress_port;
    bit<48>         ingress_mac_tstamp; // arrival at the MAC
}

@__intrinsic_metadata
struct ingress_intrinsic_metadata_from_parser_t {
    bit<48> global_tstamp;              // arrival at ingress
    bit<32> global_ver;
    bit<16> parser_err;                 // PARSER_ERROR_*
}

@__intrinsic_metadata
struct ingress_intrinsic_metadata_for_tm_t {
    PortId_t           ucast_egress_port;
    bit<1>             bypass_egress;
    bit<1>             deflect_on_drop; // a packet that is refused goes to the deflection port
    bit<3>             ingress_cos;     // class of the ingress buffer, PFC
    QueueId_t          qid;
    bit<3>             icos_for_copy_to_cpu;
    bit<1>             copy_to_cpu;
    bit<2>             packet_color;    // MeterColor_t, for drops by colour
    bit<1>             disable_ucast_cutthru;
    bit<1>             enable_mcast_cutthru;
    MulticastGroupId_t mcast_grp_a;     // 0: none
    MulticastGroupId_t mcast_grp_b;
    bit<13>            level1_mcast_hash;
    bit<13>            level2_mcast_hash;
    L1ExclusionId_t    level1_exclusion_id;
    L2ExclusionId_t    level2_exclusion_id;
    bit<16>            rid;             // replication id
}

// Bits of drop_ctl: 0 unicast, multicast and resubmission, 1 copy to CPU, 2 mirroring.
@__intrinsic_metadata
struct ingress_intrinsic_metadata_for_deparser_t {
    bit<3>         drop_ctl;
    DigestType_t   digest_type;
    ResubmitType_t resubmit_type;
    MirrorType_t   mirror_type;         // 0: no mirroring
#if EBB_TOFINO == 2
    bit<1>         mirror_io_select;
    bit<13>        mirror_hash;
    bit<3>         mirror_ingress_cos;
    bit<1>         mirror_deflect_on_drop;
    bit<1>         mirror_multicast_ctrl;
    PortId_t       mirror_egress_port;
    QueueId_t      mirror_qid;
    bit<8>         mirror_coalesce_length;
    bit<32>        adv_flow_ctl;
    bit<14>        mtu_trunc_len;
    bit<1>         mtu_trunc_err_f;
    bit<1>         pktgen;              // 1: the deparser generates packets
    bit<14>        pktgen_address;
    bit<10>        pktgen_length;
#endif
}

#if EBB_TOFINO == 2
// A report of the traffic manager on the depth of a queue, to the ghost thread.
@__intrinsic_metadata @__ghost_metadata
header ghost_intrinsic_metadata_t {
    bit<1>  ping_pong;
    bit<18> qlength;
    bit<11> qid;
    bit<2>  pipe_id;
}
#define EBB_TIME 32
#else
#define EBB_TIME 18
#endif

// In front of each packet at the egress parser.
@__intrinsic_metadata
header egress_intrinsic_metadata_t {
    @padding bit<(8 - PORT_ID_WIDTH % 8)> _pad0;
    PortId_t          egress_port;
    @padding bit<5>   _pad1;
    bit<19>           enq_qdepth;       // when it was enqueued
    @padding bit<6>   _pad2;
    bit<2>            enq_congest_stat;
#if EBB_TOFINO == 1
    @padding bit<14>  _pad3;
#endif
    bit<EBB_TIME>     enq_tstamp;
    @padding bit<5>   _pad4;
    bit<19>           deq_qdepth;       // when it was dequeued
    @padding bit<6>   _pad5;
    bit<2>            deq_congest_stat;
    bit<8>            app_pool_congest_stat;    // 2 bits for each pool
#if EBB_TOFINO == 1
    @padding bit<14>  _pad6;
#endif
    bit<EBB_TIME>     deq_timedelta;    // time in the queue
    bit<16>           egress_rid;
    @padding bit<7>   _pad7;
    bit<1>            egress_rid_first; // 1: first replica of its group
    @padding bit<(8 - QUEUE_ID_WIDTH % 8)> _pad8;
    QueueId_t         egress_qid;
    @padding bit<5>   _pad9;
    bit<3>            egress_cos;
    @padding bit<7>   _pad10;
    bit<1>            deflection_flag;  // 1: deflected on drop
    bit<16>           pkt_length;       // bytes
#if EBB_TOFINO == 2
    @padding bit<8>   _pad11;
#endif
}

@__intrinsic_metadata
struct egress_intrinsic_metadata_from_parser_t {
    bit<48> global_tstamp;              // arrival at egress
    bit<32> global_ver;
    bit<16> parser_err;                 // PARSER_ERROR_*
}

@__intrinsic_metadata
struct egress_intrinsic_metadata_for_deparser_t {
    bit<3>       drop_ctl;
    MirrorType_t mirror_type;           // 0: no mirroring
    bit<1>       coalesce_flush;
    bit<7>       coalesce_length;       // bytes
#if EBB_TOFINO == 2
    bit<1>       mirror_io_select;
    bit<13>      mirror_hash;
    bit<3>       mirror_ingress_cos;
    bit<1>       mirror_deflect_on_drop;
    bit<1>       mirror_multicast_ctrl;
    PortId_t     mirror_egress_port;
    QueueId_t    mirror_qid;
    bit<8>       mirror_coalesce_length;
    bit<32>      adv_flow_ctl;
    bit<14>      mtu_trunc_len;
    bit<1>       mtu_trunc_err_f;
#endif
}

@__intrinsic_metadata
struct egress_intrinsic_metadata_for_output_port_t {
    bit<1> capture_tstamp_on_tx;        // IEEE 1588: departure is stamped
    bit<1> update_delay_on_tx;          // IEEE 1588: the residence time is added, by the ptp_metadata_t in front
}

// ---- Headers in front of generated packets.

#if EBB_TOFINO == 1
#define EBB_PKTGEN_HEAD @padding bit<3> _pad1; bit<2> pipe_id; bit<3> app_id;
#else
#define EBB_PKTGEN_HEAD @padding bit<2> _pad1; bit<2> pipe_id; bit<4> app_id;
#endif

header pktgen_timer_header_t {
    EBB_PKTGEN_HEAD
    @padding bit<8> _pad2;
    bit<16>         batch_id;           // from 0
    bit<16>         packet_id;          // from 0
}

header pktgen_port_down_header_t {
    EBB_PKTGEN_HEAD
    @padding bit<(16 - PORT_ID_WIDTH % 8)> _pad2;
    PortId_t        port_num;
    bit<16>         packet_id;
}

header pktgen_recirc_header_t {
    EBB_PKTGEN_HEAD
#if EBB_TOFINO == 1
    bit<24>         key;                // of the recirculated packet, masked
#else
    @padding bit<8> _pad2;
    bit<16>         batch_id;
#endif
    bit<16>         packet_id;
}

#if EBB_TOFINO == 2
header pktgen_deparser_header_t {
    EBB_PKTGEN_HEAD
    @padding bit<8> _pad2;
    bit<16>         batch_id;
    bit<16>         packet_id;
}

header pktgen_pfc_header_t {
    EBB_PKTGEN_HEAD
    @padding bit<40> _pad2;
}
#endif

header ptp_metadata_t {
    bit<8>  udp_cksum_byte_offset;
    bit<8>  cf_byte_offset;
    bit<48> updated_cf;
}

// ---- Externs of parsers and deparsers.

// Internet checksum (RFC 1071).
extern Checksum {
    Checksum();
    void add<T>(in T data);
    void subtract<T>(in T data);
    bool verify();
    void subtract_all_and_deposit<T>(out T residual);
    bit<16> get();
    bit<16> update<T>(in T data, @optional in bool zeros_as_ones);
}

#if EBB_TOFINO == 1
#define EBB_COUNTER_MASK bit<3>
#else
#define EBB_COUNTER_MASK bit<8>
#endif

extern ParserCounter {
    ParserCounter();
    void set<T>(in T value);
    void set<T>(in T field, in bit<8> max, in bit<8> rotate, in EBB_COUNTER_MASK mask, in bit<8> add);
#if EBB_TOFINO == 2
    void push<T>(in T value, @optional bool update_with_top);
    void push<T>(in T field, in bit<8> max, in bit<8> rotate, in bit<8> mask, in bit<8> add,
                 @optional bool update_with_top);
    void pop();
#endif
    bool is_zero();
    bool is_negative();
    void increment(in bit<8> value);
    void decrement(in bit<8> value);
}

extern ParserPriority {
    ParserPriority();
    void set(in bit<3> prio);
}

extern Mirror {
    @deprecated("give it the value of mirror_type that selects it")
    Mirror();
    Mirror(MirrorType_t mirror_type);
    void emit(in MirrorId_t session_id);
    void emit<T>(in MirrorId_t session_id, in T hdr);
}

extern Resubmit {
    @deprecated("give it the value of resubmit_type that selects it")
    Resubmit();
    Resubmit(ResubmitType_t resubmit_type);
    void emit();
    void emit<T>(in T hdr);
}

extern Digest<T> {
    @deprecated("give it the value of digest_type that selects it")
    Digest();
    Digest(DigestType_t digest_type);
    void pack(in T data);
}

#if EBB_TOFINO == 2
extern Pktgen {
    Pktgen();
    void emit<T>(in T hdr);
}
#endif

// The metadata of the ingress port, as the program lays it out.
extern T port_metadata_unpack<T>(packet_in pkt);

extern bit<32> sizeInBits<H>(in H h);
extern bit<32> sizeInBytes<H>(in H h);

// ---- Externs of match-action stages.

extern CRCPolynomial<T> {
    CRCPolynomial(T coeff, bool reversed, bool msb, bool extended, T init, T xor);
}

extern Hash<W> {
    Hash(HashAlgorithm_t algo);
    Hash(HashAlgorithm_t algo, CRCPolynomial<_> poly);
    W get<D>(in D data);
}

extern Random<W> {
    Random();
    W get();
}

extern T max<T>(in T t1, in T t2);
extern T min<T>(in T t1, in T t2);

// The bits of src1 ++ src2 from shift_amount on.
#if EBB_TOFINO == 1
extern void funnel_shift_right<T>(inout T dst, in T src1, in T src2, int shift_amount);
#else
extern void funnel_shift_right<T>(out T dst, in T src1, in T src2, int shift_amount);
#endif

// Makes a field of the deparser's metadata as if it had never been written.
extern void invalidate<T>(in T field);
extern bool is_validated<T>(in T field);

// Egress counters and meters of Tofino 2 may count what leaves the deparser.
#if EBB_TOFINO == 1
#define EBB_TRUE_EGRESS
#else
#define EBB_TRUE_EGRESS , @optional bool true_egress_accounting
#endif

extern Counter<W, I> {
    Counter(bit<32> size, CounterType_t type EBB_TRUE_EGRESS);
    void count(in I index, @optional in bit<32> adjust_byte_count);
}

extern DirectCounter<W> {
    DirectCounter(CounterType_t type EBB_TRUE_EGRESS);
    void count(@optional in bit<32> adjust_byte_count);
}

// The result is a MeterColor_t, or the value that the constructor gives to the colour.
extern Meter<I> {
    Meter(bit<32> size, MeterType_t type EBB_TRUE_EGRESS);
    Meter(bit<32> size, MeterType_t type, bit<8> red, bit<8> yellow, bit<8> green EBB_TRUE_EGRESS);
    bit<8> execute(in I index, in MeterColor_t color, @optional in bit<32> adjust_byte_count);
    bit<8> execute(in I index, @optional in bit<32> adjust_byte_count);
}

extern DirectMeter {
    DirectMeter(MeterType_t type EBB_TRUE_EGRESS);
    DirectMeter(MeterType_t type, bit<8> red, bit<8> yellow, bit<8> green EBB_TRUE_EGRESS);
    bit<8> execute(in MeterColor_t color, @optional in bit<32> adjust_byte_count);
    bit<8> execute(@optional in bit<32> adjust_byte_count);
}

// Low-pass filter: an exponentially weighted average over time.
extern Lpf<T, I> {
    Lpf(bit<32> size);
    T execute(in T val, in I index);
}

extern DirectLpf<T> {
    DirectLpf();
    T execute(in T val);
}

// Weighted random early detection.
extern Wred<T, I> {
    Wred(bit<32> size, bit<8> drop_value, bit<8> no_drop_value);
    bit<8> execute(in T val, in I index);
}

extern DirectWred<T> {
    DirectWred(bit<8> drop_value, bit<8> no_drop_value);
    bit<8> execute(in T val);
}

extern Register<T, I> {
    Register(bit<32> size);
    Register(bit<32> size, T initial_value);
    T read(in I index);
    T write(in I index, in T value);
#if EBB_TOFINO == 2
    void clear(in T value, @optional in T busy);
#endif
}

extern DirectRegister<T> {
    DirectRegister();
    DirectRegister(T initial_value);
    T read();
    T write(in T value);
#if EBB_TOFINO == 2
    void clear(in T value, @optional in T busy);
#endif
}

// A value of register actions that the control plane sets.
extern RegisterParam<T> {
    RegisterParam(T initial_value);
    T read();
}

extern MathUnit<T> {
    MathUnit(bool invert, int<2> shift, int<6> scale,
             tuple<bit<8>, bit<8>, bit<8>, bit<8>, bit<8>, bit<8>, bit<8>, bit<8>,
                   bit<8>, bit<8>, bit<8>, bit<8>, bit<8>, bit<8>, bit<8>, bit<8>> data);
    MathUnit(MathOp_t op, int factor);
    MathUnit(MathOp_t op, int A, int B);
    T execute(in T x);
}

// Register actions: `execute` calls `apply` on the element of the register, which is written back; the result is that
// of `rv`, of which Tofino 2 has up to four.
#if EBB_TOFINO == 1

extern RegisterAction<T, I, U> {
    RegisterAction(Register<_, _> reg);
    U execute(in I index);
    U execute_log();                    // the index counts up
    @synchronous(execute, execute_log)
    abstract void apply(inout T value, @optional out U rv);
    U predicate(@optional in bool cmplo, @optional in bool cmphi);
}

extern DirectRegisterAction<T, U> {
    DirectRegisterAction(DirectRegister<T> reg);
    U execute();
    @synchronous(execute)
    abstract void apply(inout T value, @optional out U rv);
    U predicate(@optional in bool cmplo, @optional in bool cmphi);
}

#else

// Inside of apply, overflow and underflow: where the value matched, which conditions held, extremes of its parts.
#define EBB_PREDICATE @optional in bool cmp0, @optional in bool cmp1, @optional in bool cmp2, @optional in bool cmp3
#define EBB_EXTREMES                                                            \
    bit<8>  min8<E>(in E val, in bit<16> mask, @optional out bit<4> index);     \
    bit<8>  max8<E>(in E val, in bit<16> mask, @optional out bit<4> index);     \
    bit<16> min16<E>(in E val, in bit<8> mask, @optional out bit<3> index);     \
    bit<16> max16<E>(in E val, in bit<8> mask, @optional out bit<3> index);
#define EBB_ALU                             \
    U address(@optional bit<1> subword);    \
    U predicate(EBB_PREDICATE);             \
    EBB_EXTREMES

extern DirectRegisterAction<T, U> {
    DirectRegisterAction(DirectRegister<T> reg);
    U execute(@optional out U rv2, @optional out U rv3, @optional out U rv4);
    @synchronous(execute)
    abstract void apply(inout T value, @optional out U rv, @optional out U rv2, @optional out U rv3,
                        @optional out U rv4);
    EBB_ALU
}

#define EBB_OUTS @optional out U rv2, @optional out U rv3, @optional out U rv4

extern RegisterAction<T, H, U> {
    RegisterAction(Register<_, _> reg);
    U execute(@optional in H index, EBB_OUTS);
    U execute_log(EBB_OUTS);
    U enqueue(EBB_OUTS);                // a register as a queue
    U dequeue(EBB_OUTS);
    U push(EBB_OUTS);                   // a register as a stack
    U pop(EBB_OUTS);
    void sweep(@optional in U busy);    // every element
    @synchronous(execute, execute_log, enqueue, dequeue, push, pop, sweep)
    abstract void apply(inout T value, @optional out U rv1, EBB_OUTS);
    @synchronous(enqueue, push)
    @optional abstract void overflow(@optional inout T value, @optional out U rv1, EBB_OUTS);
    @synchronous(dequeue, pop)
    @optional abstract void underflow(@optional inout T value, @optional out U rv1, EBB_OUTS);
    EBB_ALU
}

extern LearnAction<T, H, D, U> {
    LearnAction(Register<T, H> reg);
    U execute(in H index, EBB_OUTS);
    @synchronous(execute)
    abstract void apply(inout T value, in D digest, in bool learn, @optional out U rv1, EBB_OUTS);
    EBB_ALU
}

// On registers as wide as a word of memory.
#define EBB_MIN_MAX(MOD)                                                                                    \
    bit<8>  min8(in bit<128> val, in bit<16> mask, @optional out bit<4> index, @optional in MOD postmod);   \
    bit<8>  max8(in bit<128> val, in bit<16> mask, @optional out bit<4> index, @optional in MOD postmod);   \
    bit<16> min16(in bit<128> val, in bit<8> mask, @optional out bit<3> index, @optional in MOD postmod);   \
    bit<16> max16(in bit<128> val, in bit<8> mask, @optional out bit<3> index, @optional in MOD postmod);

extern MinMaxAction<T, H, U> {
    MinMaxAction(Register<T, _> reg);
    U execute(@optional in H index, EBB_OUTS);
    @synchronous(execute)
    abstract void apply(inout bit<128> value, @optional out U rv1, EBB_OUTS);
    U address(@optional bit<1> subword);
    U predicate(EBB_PREDICATE);
    EBB_MIN_MAX(int<8>)
}

// The same with 2 to 4 results of different types.
#define EBB_TYPES2 U1, U2
#define EBB_TYPES3 U1, U2, U3
#define EBB_TYPES4 U1, U2, U3, U4
#define EBB_REST2 out U2 rv2
#define EBB_REST3 out U2 rv2, out U3 rv3
#define EBB_REST4 out U2 rv2, out U3 rv3, out U4 rv4
#define EBB_RESULTS(N) out U1 rv1, EBB_REST##N
#define EBB_ALU_MANY                        \
    U address<U>(@optional bit<1> subword); \
    U predicate<U>(EBB_PREDICATE);

#define EBB_ACTIONS(N)                                                                      \
    extern DirectRegisterAction##N<T, EBB_TYPES##N> {                                       \
        DirectRegisterAction##N(DirectRegister<T> reg);                                     \
        U1 execute(EBB_REST##N);                                                            \
        @synchronous(execute)                                                               \
        abstract void apply(inout T value, EBB_RESULTS(N));                                 \
        EBB_ALU_MANY EBB_EXTREMES                                                           \
    }                                                                                       \
    extern RegisterAction##N<T, H, EBB_TYPES##N> {                                          \
        RegisterAction##N(Register<_, _> reg);                                              \
        U1 execute(in H index, EBB_REST##N);                                                \
        U1 execute_log(EBB_REST##N);                                                        \
        U1 enqueue(EBB_REST##N);                                                            \
        U1 dequeue(EBB_REST##N);                                                            \
        U1 push(EBB_REST##N);                                                               \
        U1 pop(EBB_REST##N);                                                                \
        @synchronous(execute, execute_log, enqueue, dequeue, push, pop)                     \
        abstract void apply(inout T value, EBB_RESULTS(N));                                 \
        @synchronous(enqueue, push)                                                         \
        @optional abstract void overflow(@optional inout T value, EBB_RESULTS(N));          \
        @synchronous(dequeue, pop)                                                          \
        @optional abstract void underflow(@optional inout T value, EBB_RESULTS(N));         \
        EBB_ALU_MANY EBB_EXTREMES                                                           \
    }                                                                                       \
    extern LearnAction##N<T, H, D, EBB_TYPES##N> {                                          \
        LearnAction##N(Register<T, H> reg);                                                 \
        U1 execute(in H index, EBB_REST##N);                                                \
        @synchronous(execute)                                                               \
        abstract void apply(inout T value, in D digest, in bool learn, EBB_RESULTS(N));     \
        EBB_ALU_MANY EBB_EXTREMES                                                           \
    }                                                                                       \
    extern MinMaxAction##N<T, H, EBB_TYPES##N> {                                            \
        MinMaxAction##N(Register<T, _> reg);                                                \
        U1 execute(@optional in H index, EBB_REST##N);                                      \
        @synchronous(execute)                                                               \
        abstract void apply(inout bit<128> value, EBB_RESULTS(N));                          \
        EBB_ALU_MANY EBB_MIN_MAX(int<9>)                                                    \
    }

EBB_ACTIONS(2)
EBB_ACTIONS(3)
EBB_ACTIONS(4)

extern IdleTimeout {
    IdleTimeout();
}

#endif

// ---- What tables refer to.

extern ActionProfile {
    ActionProfile(bit<32> size);
}

// reg: a bit for each member, by which it can be taken out.
extern ActionSelector {
    ActionSelector(ActionProfile action_profile, Hash<_> hash, SelectorMode_t mode, bit<32> max_group_size,
                   bit<32> num_groups);
    ActionSelector(ActionProfile action_profile, Hash<_> hash, SelectorMode_t mode, Register<bit<1>, _> reg,
                   bit<32> max_group_size, bit<32> num_groups);
    @deprecated("give it an ActionProfile")
    ActionSelector(bit<32> size, Hash<_> hash, SelectorMode_t mode);
    @deprecated("give it an ActionProfile")
    ActionSelector(bit<32> size, Hash<_> hash, SelectorMode_t mode, Register<bit<1>, _> reg);
}

extern SelectorAction {
    SelectorAction(ActionSelector sel);
    bit<1> execute(@optional in bit<32> index);
    @synchronous(execute)
    abstract void apply(inout bit<1> value, @optional out bit<1> rv);
}

extern Atcam {
    Atcam(@optional bit<32> number_partitions);
}

extern Alpm {
    Alpm(@optional bit<32> number_partitions, @optional bit<32> subtrees_per_partition,
         @optional bit<32> atcam_subset_width, @optional bit<32> shift_granularity);
}

// ---- Blocks. TNA lets a program leave the last parameters out.

#if EBB_TOFINO == 1
#define EBB_MAY @optional
#define EBB_GHOST
#else
#define EBB_MAY
#define EBB_GHOST , @optional in ghost_intrinsic_metadata_t gh_intr_md
#endif

parser IngressParserT<H, M>(
    packet_in pkt,
    out H hdr,
    out M ig_md,
    EBB_MAY out ingress_intrinsic_metadata_t ig_intr_md,
    @optional out ingress_intrinsic_metadata_for_tm_t ig_intr_md_for_tm,
    @optional out ingress_intrinsic_metadata_from_parser_t ig_intr_md_from_prsr);

parser EgressParserT<H, M>(
    packet_in pkt,
    out H hdr,
    out M eg_md,
    EBB_MAY out egress_intrinsic_metadata_t eg_intr_md,
    @optional out egress_intrinsic_metadata_from_parser_t eg_intr_md_from_prsr,
    @optional out egress_intrinsic_metadata_for_deparser_t eg_intr_md_for_dprsr);

control IngressT<H, M>(
    inout H hdr,
    inout M ig_md,
    EBB_MAY in ingress_intrinsic_metadata_t ig_intr_md,
    EBB_MAY in ingress_intrinsic_metadata_from_parser_t ig_intr_md_from_prsr,
    EBB_MAY inout ingress_intrinsic_metadata_for_deparser_t ig_intr_md_for_dprsr,
    EBB_MAY inout ingress_intrinsic_metadata_for_tm_t ig_intr_md_for_tm EBB_GHOST);

#if EBB_TOFINO == 2
control GhostT(in ghost_intrinsic_metadata_t gh_intr_md);
#endif

control EgressT<H, M>(
    inout H hdr,
    inout M eg_md,
    EBB_MAY in egress_intrinsic_metadata_t eg_intr_md,
    EBB_MAY in egress_intrinsic_metadata_from_parser_t eg_intr_md_from_prsr,
    EBB_MAY inout egress_intrinsic_metadata_for_deparser_t eg_intr_md_for_dprsr,
    EBB_MAY inout egress_intrinsic_metadata_for_output_port_t eg_intr_md_for_oport);

control IngressDeparserT<H, M>(
    packet_out pkt,
    inout H hdr,
    in M metadata,
    EBB_MAY in ingress_intrinsic_metadata_for_deparser_t ig_intr_md_for_dprsr,
    @optional in ingress_intrinsic_metadata_t ig_intr_md);

control EgressDeparserT<H, M>(
    packet_out pkt,
    inout H hdr,
    in M metadata,
    EBB_MAY in egress_intrinsic_metadata_for_deparser_t eg_intr_md_for_dprsr,
    @optional in egress_intrinsic_metadata_t eg_intr_md,
    @optional in egress_intrinsic_metadata_from_parser_t eg_intr_md_from_prsr);

package Pipeline<IH, IM, EH, EM>(
    IngressParserT<IH, IM> ingress_parser,
    IngressT<IH, IM> ingress,
    IngressDeparserT<IH, IM> ingress_deparser,
    EgressParserT<EH, EM> egress_parser,
    EgressT<EH, EM> egress,
#if EBB_TOFINO == 1
    EgressDeparserT<EH, EM> egress_deparser);
#else
    EgressDeparserT<EH, EM> egress_deparser,
    @optional GhostT ghost);
#endif

package Switch<IH0, IM0, EH0, EM0, IH1, IM1, EH1, EM1, IH2, IM2, EH2, EM2, IH3, IM3, EH3, EM3>(
    Pipeline<IH0, IM0, EH0, EM0> pipe0,
    @optional Pipeline<IH1, IM1, EH1, EM1> pipe1,
    @optional Pipeline<IH2, IM2, EH2, EM2> pipe2,
    @optional Pipeline<IH3, IM3, EH3, EM3> pipe3);

#if EBB_TOFINO == 1
// A parser for each port of a pipe.
#define EBB_PARSERS(PARSER)                                                                             \
    PARSER prsr0, @optional PARSER prsr1, @optional PARSER prsr2, @optional PARSER prsr3,               \
    @optional PARSER prsr4, @optional PARSER prsr5, @optional PARSER prsr6, @optional PARSER prsr7,     \
    @optional PARSER prsr8, @optional PARSER prsr9, @optional PARSER prsr10, @optional PARSER prsr11,   \
    @optional PARSER prsr12, @optional PARSER prsr13, @optional PARSER prsr14, @optional PARSER prsr15, \
    @optional PARSER prsr16, @optional PARSER prsr17

#define EBB_INGRESS_PARSER IngressParserT<H, M>
#define EBB_EGRESS_PARSER EgressParserT<H, M>

package IngressParsers<H, M>(EBB_PARSERS(EBB_INGRESS_PARSER));
package EgressParsers<H, M>(EBB_PARSERS(EBB_EGRESS_PARSER));

package MultiParserPipeline<IH, IM, EH, EM>(
    IngressParsers<IH, IM> ig_prsr,
    IngressT<IH, IM> ingress,
    IngressDeparserT<IH, IM> ingress_deparser,
    EgressParsers<EH, EM> eg_prsr,
    EgressT<EH, EM> egress,
    EgressDeparserT<EH, EM> egress_deparser);

package MultiParserSwitch<IH0, IM0, EH0, EM0, IH1, IM1, EH1, EM1, IH2, IM2, EH2, EM2, IH3, IM3, EH3, EM3>(
    MultiParserPipeline<IH0, IM0, EH0, EM0> pipe0,
    @optional MultiParserPipeline<IH1, IM1, EH1, EM1> pipe1,
    @optional MultiParserPipeline<IH2, IM2, EH2, EM2> pipe2,
    @optional MultiParserPipeline<IH3, IM3, EH3, EM3> pipe3);
#endif

#endif
