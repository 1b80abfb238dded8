// Externs of TNA: one for each value of the first byte.
#include <core.p4>
#include <tna.p4>

header request_t {
    bit<8>  what;
    bit<8>  index;
    bit<16> value;
    bit<32> result;
}
header option_t { bit<8> length; bit<8> next; }
struct headers { request_t request; option_t[3] options; }
struct metadata { bool wrong; bit<16> residual; bit<8> more; }
struct pair_t { bit<16> lo; bit<16> hi; }
struct learned_t { bit<8> index; bit<16> value; }

parser IP(packet_in p, out headers hdr, out metadata md, out ingress_intrinsic_metadata_t ig) {
    Checksum() whole;
    Checksum() rest;
    ParserCounter() left;
    state start {
        p.extract(ig);
        p.advance(PORT_METADATA_SIZE);
        p.extract(hdr.request);
        whole.add(hdr.request);
        md.wrong = whole.verify();
        rest.subtract({ hdr.request.value });
        md.residual = rest.get();
        left.set(hdr.request.index);
        transition select(hdr.request.what) {
            20: options;
            default: accept;
        }
    }
    state options {
        transition select(left.is_zero()) {
            true: accept;
            default: option;
        }
    }
    state option {
        p.extract(hdr.options.next);
        left.decrement(1);
        transition options;
    }
}

control I(inout headers hdr, inout metadata md, in ingress_intrinsic_metadata_t ig,
          in ingress_intrinsic_metadata_from_parser_t prsr, inout ingress_intrinsic_metadata_for_deparser_t dprsr,
          inout ingress_intrinsic_metadata_for_tm_t tm) {
    Register<bit<16>, bit<8>>(16, 7) seen;
    RegisterAction<bit<16>, bit<8>, bit<16>>(seen) count = {
        void apply(inout bit<16> value, out bit<16> before) {
            before = value;
            if (value == 9) {
                value = 0;
            } else {
                value = value + hdr.request.value;
            }
        }
    };
    RegisterAction<bit<16>, bit<8>, bit<16>>(seen) clear = {
        void apply(inout bit<16> value) { value = 0; }
    };
    Register<pair_t, bit<8>>(16, { 1, 0x102 }) pairs;
    RegisterAction<pair_t, bit<8>, bit<16>>(pairs) both = {
        void apply(inout pair_t value, out bit<16> high) {
            value.lo = value.lo + 1;
            value.hi = value.hi |+| hdr.request.value;
            high = value.hi;
        }
    };
    RegisterAction<pair_t, bit<8>, bit<16>>(pairs) low = {
        void apply(inout pair_t value, out bit<16> out_value) { out_value = value.lo; }
    };
    CRCPolynomial<bit<16>>(0x1021, false, false, false, 0xffff, 0) ccitt;
    Hash<bit<16>>(HashAlgorithm_t.CUSTOM, ccitt) own;
    Hash<bit<32>>(HashAlgorithm_t.CRC32) crc;
    Hash<bit<64>>(HashAlgorithm_t.CRC64) long;
    Hash<bit<8>>(HashAlgorithm_t.XOR8) xor;
    Hash<bit<32>>(HashAlgorithm_t.CRC16) twice;
    Hash<bit<24>>(HashAlgorithm_t.CRC16) once_and_a_half;
    Hash<bit<32>>(HashAlgorithm_t.CUSTOM, ccitt) once;
    Hash<bit<12>>(HashAlgorithm_t.IDENTITY) same;
    Hash<bit<16>>(HashAlgorithm_t.CRC16) no_whole_bytes;
    Random<bit<4>>() dice;
    Counter<bit<32>, bit<8>>(4, CounterType_t.PACKETS_AND_BYTES) counted;
    Meter<bit<8>>(4, MeterType_t.PACKETS) limit;
    DirectCounter<bit<32>>(CounterType_t.PACKETS) hits;
    DirectMeter(MeterType_t.PACKETS) entry_limit;
    RegisterParam<bit<16>>(77) parameter;

    action put(bit<32> value) { hdr.request.result = value; }
    action of_entry(bit<32> value) {
        hits.count();
        hdr.request.result = value |+| (bit<32>)entry_limit.execute();
    }
    table t {
        key = { hdr.request.index : exact; hdr.request.value : ternary; }
        actions = { of_entry; @defaultonly NoAction; }
        const default_action = NoAction;
        counters = hits;
        meters = entry_limit;
        size = 8;
    }
    DirectRegister<bit<16>>(3) seen_by_entry;
    DirectRegisterAction<bit<16>, bit<16>>(seen_by_entry) next = {
        void apply(inout bit<16> value, out bit<16> now) {
            value = value + 1;
            now = value;
        }
    };
    action numbered() { hdr.request.result = (bit<32>)next.execute(); }
    table numbers {
        key = { hdr.request.index : exact; }
        actions = { numbered; @defaultonly NoAction; }
        const default_action = NoAction;
        registers = seen_by_entry;
        size = 4;
    }
    Register<bit<32>, bit<8>>(16, 5) numbers_seen;
    MathUnit<bit<32>>(MathOp_t.SQR, 3, 2) square;
    RegisterAction<bit<32>, bit<8>, bit<32>>(numbers_seen) squared = {
        void apply(inout bit<32> value, out bit<32> now) {
            value = square.execute((bit<32>)hdr.request.value);
            now = value;
        }
    };
    // Bit 2 * (the number was above 6) + (it was odd).
    RegisterAction<bit<32>, bit<8>, bit<16>>(numbers_seen) which = {
        void apply(inout bit<32> value, out bit<16> held) {
            held = this.predicate(value[0:0] == 1, value > 6);
        }
    };
    @symmetric("hdr.request.index", "hdr.request.what")
    Hash<bit<16>>(HashAlgorithm_t.CRC16) either_way;
    Meter<bit<8>>(4, MeterType_t.BYTES) short;
    Hash<bit<14>>(HashAlgorithm_t.CRC16) choice;
    ActionProfile(4) ways;
    ActionSelector(ways, choice, SelectorMode_t.FAIR, 2, 2) group;
    table by_group {
        key = { hdr.request.index : exact; hdr.request.value : selector; }
        actions = { put; }
        implementation = group;
        size = 4;
    }
    Lpf<bit<16>, bit<8>>(4) mean;
    Wred<bit<16>, bit<8>>(4, 1, 2) early;
    DirectLpf<bit<16>>() mean_of_entry;
    action smoothed() { hdr.request.result = (bit<32>)mean_of_entry.execute(hdr.request.value); }
    table means {
        key = { hdr.request.index : exact; }
        actions = { smoothed; NoAction; }
        filters = mean_of_entry;
    }
    apply {
        tm.ucast_egress_port = 1;
        if (hdr.request.what == 1) {
            hdr.request.result = (bit<32>)count.execute(hdr.request.index);
        } else if (hdr.request.what == 2) {
            clear.execute(hdr.request.index);
        } else if (hdr.request.what == 3) {
            hdr.request.result[15:0] = both.execute(hdr.request.index);
            hdr.request.result[31:16] = low.execute(hdr.request.index);
        } else if (hdr.request.what == 4) {
            hdr.request.result = (bit<32>)own.get({ 8w0x31, 8w0x32, 8w0x33, 8w0x34, 8w0x35, 8w0x36, 8w0x37, 8w0x38, 8w0x39 });
        } else if (hdr.request.what == 5) {
            hdr.request.result = crc.get({ 8w0x31, 8w0x32, 8w0x33, 8w0x34, 8w0x35, 8w0x36, 8w0x37, 8w0x38, 8w0x39 });
        } else if (hdr.request.what == 6) {
            hdr.request.result = (bit<32>)xor.get({ hdr.request.what, hdr.request.index, hdr.request.value });
        } else if (hdr.request.what == 7) {
            hdr.request.result = (bit<32>)same.get({ hdr.request.index, hdr.request.value });
        } else if (hdr.request.what == 8) {
            counted.count(hdr.request.index);
            counted.count(3, 2);
        } else if (hdr.request.what == 9) {
            hdr.request.result = (bit<32>)limit.execute(hdr.request.index);
        } else if (hdr.request.what == 10) {
            t.apply();
        } else if (hdr.request.what == 11) {
            by_group.apply();
        } else if (hdr.request.what == 12) {
            hdr.request.result = (bit<32>)max(hdr.request.value, 0x80) + (bit<32>)min(hdr.request.value, 0x80);
        } else if (hdr.request.what == 13) {
            hdr.request.result = (bit<32>)parameter.read() + sizeInBytes(hdr.request);
        } else if (hdr.request.what == 14) {
            hdr.request.result = (bit<32>)dice.get() & 0xfffffff0;
        } else if (hdr.request.what == 15) {
            hdr.request.result = (bit<32>)prsr.parser_err;
        } else if (hdr.request.what == 16) {
            hdr.request.value = 0x1234;
        } else if (hdr.request.what == 17) {
            hdr.request.result = (bit<32>)(bit<1>)md.wrong;
        } else if (hdr.request.what == 18) {
            numbers.apply();
        } else if (hdr.request.what == 19) {
            hdr.request.result = (bit<32>)short.execute(index = hdr.request.index, adjust_byte_count = 4);
        } else if (hdr.request.what == 21) {
            hdr.request.result = squared.execute(hdr.request.index);
        } else if (hdr.request.what == 22) {
            hdr.request.result = (bit<32>)which.execute(hdr.request.index);
        } else if (hdr.request.what == 23 || hdr.request.what == 24) {
            hdr.request.result = (bit<32>)either_way.get({ hdr.request.what, hdr.request.value, hdr.request.index });
        } else if (hdr.request.what == 25) {
            hdr.request.result[31:16] = mean.execute(hdr.request.value, hdr.request.index);
            hdr.request.result[15:8] = early.execute(hdr.request.value, hdr.request.index);
        } else if (hdr.request.what == 26) {
            means.apply();
        } else if (hdr.request.what == 27) {
            bit<64> all_of_it = long.get({ hdr.request.what, hdr.request.index });
            hdr.request.result = all_of_it[63:32];
        } else if (hdr.request.what == 28) {
            hdr.request.result = twice.get({ 8w0x31, 8w0x32, 8w0x33, 8w0x34, 8w0x35, 8w0x36, 8w0x37, 8w0x38, 8w0x39 });
        } else if (hdr.request.what == 29) {
            hdr.request.result = (bit<32>)once_and_a_half.get({ 8w0x31, 8w0x32, 8w0x33, 8w0x34, 8w0x35, 8w0x36, 8w0x37, 8w0x38, 8w0x39 });
        } else if (hdr.request.what == 30) {
            hdr.request.result = once.get({ 8w0x31, 8w0x32, 8w0x33, 8w0x34, 8w0x35, 8w0x36, 8w0x37, 8w0x38, 8w0x39 });
        } else if (hdr.request.what == 31) {
            hdr.request.result = (bit<32>)no_whole_bytes.get({ hdr.request.value[11:0] });
        } else if (hdr.request.what == 20) {
            hdr.request.index = hdr.options[0].next;
        }
    }
}

control ID(packet_out p, inout headers hdr, in metadata md, in ingress_intrinsic_metadata_for_deparser_t dprsr) {
    Checksum() sum;
    Checksum() parts;
    apply {
        if (hdr.request.what == 16) {
            // Bytes that the parser took off, with the new value: the sum that the whole had.
            hdr.request.result[15:0] = sum.update({ hdr.request.value, md.residual });
            parts.add({ hdr.request.value });
            parts.add({ md.residual });
            hdr.request.result[31:16] = parts.get();
        }
        p.emit(hdr);
    }
}

parser EP(packet_in p, out headers hdr, out metadata md, out egress_intrinsic_metadata_t eg) {
    state start { p.extract(eg); transition accept; }
}
control E(inout headers hdr, inout metadata md, in egress_intrinsic_metadata_t eg,
          in egress_intrinsic_metadata_from_parser_t prsr, inout egress_intrinsic_metadata_for_deparser_t dprsr,
          inout egress_intrinsic_metadata_for_output_port_t port) { apply { } }
control ED(packet_out p, inout headers hdr, in metadata md, in egress_intrinsic_metadata_for_deparser_t dprsr) {
    apply { p.emit(hdr); }
}

Pipeline(IP(), I(), ID(), EP(), E(), ED()) pipe;
Switch(pipe) main;
