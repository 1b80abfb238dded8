// Every way of a packet through PSA, with the metadata that deparsers send along. The first byte says what is wanted,
// the second is the port, the third the path by which egress got the packet, the others what came with it.
#include <core.p4>
#include <psa.p4>

header request_t { bit<8> what; bit<8> port; bit<8> path; bit<8> sent; bit<16> more; }
header note_t { bit<8> value; }
struct headers { request_t request; }
struct metadata { bit<8> passes; }
struct empty_t { }
struct normal_t { bit<8> value; note_t note; }
struct mark_t { bit<8> value; }

parser IP(packet_in p, out headers hdr, inout metadata md, in psa_ingress_parser_input_metadata_t istd,
          in mark_t resubmitted, in mark_t recirculated) {
    state start {
        p.extract(hdr.request);
        md.passes = resubmitted.value + recirculated.value;
        transition accept;
    }
}
control I(inout headers hdr, inout metadata md, in psa_ingress_input_metadata_t istd,
          inout psa_ingress_output_metadata_t ostd) {
    Register<bit<16>, bit<8>>(16, 7) seen;
    Counter<bit<32>, bit<8>>(16, PSA_CounterType_t.PACKETS_AND_BYTES) counted;
    Random<bit<8>>(3, 3) three;
    Hash<bit<16>>(PSA_HashAlgorithm_t.CRC16) hash;
    Hash<bit<64>>(PSA_HashAlgorithm_t.CRC32) wide;
    InternetChecksum() sum;
    Meter<bit<8>>(4, PSA_MeterType_t.PACKETS) meter;
    ActionSelector(PSA_HashAlgorithm_t.CRC32, 16, 16) members;
    action to(PortId_t port) { send_to_port(ostd, port); }
    table chosen {
        key = { hdr.request.what : exact; hdr.request.more : selector; }
        actions = { to; NoAction; }
        psa_implementation = members;
    }
    apply {
        counted.count(hdr.request.what);
        PortId_t port = (PortId_t)(PortIdUint_t)(bit<32>)hdr.request.port;
        bool again = istd.packet_path == PSA_PacketPath_t.RESUBMIT
            || istd.packet_path == PSA_PacketPath_t.RECIRCULATE;
        switch (hdr.request.what) {
            // To a port, by class 3.
            0x01: {
                send_to_port(ostd, port);
                ostd.class_of_service = (ClassOfService_t)3;
            }
            0x02: { multicast(ostd, (MulticastGroup_t)(MulticastGroupUint_t)1); }
            // As it came in, and dropped.
            0x03: {
                hdr.request.more = 0xffff;
                ostd.clone = true;
                ostd.clone_session_id = (CloneSessionId_t)5;
            }
            // Once more, as it came in.
            0x04: {
                send_to_port(ostd, port);
                hdr.request.more = (bit<16>)md.passes;
                ostd.resubmit = !again;
            }
            // Through egress, and once more.
            0x05: {
                hdr.request.more = hdr.request.more + (bit<16>)md.passes;
                if (again) { send_to_port(ostd, port); } else { send_to_port(ostd, PSA_PORT_RECIRCULATE); }
            }
            0x06: {
                send_to_port(ostd, port);
                hdr.request.more = seen.read(hdr.request.what);
                seen.write(hdr.request.what, hdr.request.more + 1);
            }
            0x07: {
                send_to_port(ostd, port);
                bit<8> n = three.read();
                hdr.request.more = hash.get_hash(16w100, { hdr.request.what, n }, 16w10);
            }
            0x08: {
                send_to_port(ostd, port);
                sum.clear();
                sum.add({ 16w0x0102, hdr.request.more });
                sum.subtract({ 16w0x0002 });
                hdr.request.more = sum.get();
            }
            0x09: {
                send_to_port(ostd, port);
                PSA_MeterColor_t colour = meter.execute(1);
                hdr.request.more = 1;
                if (colour == PSA_MeterColor_t.RED) { hdr.request.more = 0; }
                if (meter.execute(2, PSA_MeterColor_t.YELLOW) == PSA_MeterColor_t.YELLOW) {
                    hdr.request.more = hdr.request.more + 2;
                }
            }
            0x0a: { chosen.apply(); }
            // A port that there is not.
            0x0b: { send_to_port(ostd, (PortId_t)(PortIdUint_t)0x12345678); }
            0x0c: {
                send_to_port(ostd, port);
                bit<64> h = wide.get_hash({ hdr.request.what });
                hdr.request.more = h[31:16] ^ h[15:0] ^ h[63:48];
            }
            // Cloned by egress, and dropped there.
            0x0d: { send_to_port(ostd, port); }
            default: { }
        }
    }
}
control ID(packet_out p, out mark_t cloned, out mark_t resubmitted, out normal_t sent, inout headers hdr,
           in metadata md, in psa_ingress_output_metadata_t istd) {
    apply {
        if (psa_resubmit(istd)) { resubmitted.value = 0x44; }
        if (psa_clone_i2e(istd)) { cloned.value = 0x33; }
        if (psa_normal(istd)) {
            sent.value = 0x11;
            if (hdr.request.what == 2) {
                sent.note.setValid();
                sent.note.value = 0x22;
            }
        }
        p.emit(hdr);
    }
}
parser EP(packet_in p, out headers hdr, inout metadata md, in psa_egress_parser_input_metadata_t istd,
          in normal_t sent, in mark_t cloned, in mark_t cloned_by_egress) {
    state start {
        p.extract(hdr.request);
        hdr.request.sent = sent.value + cloned.value + cloned_by_egress.value;
        transition select (sent.note.isValid()) {
            true: noted;
            default: accept;
        }
    }
    state noted {
        hdr.request.sent = hdr.request.sent + sent.note.value;
        transition accept;
    }
}
control E(inout headers hdr, inout metadata md, in psa_egress_input_metadata_t istd,
          inout psa_egress_output_metadata_t ostd) {
    apply {
        if (istd.packet_path == PSA_PacketPath_t.NORMAL_UNICAST) { hdr.request.path = 1; }
        if (istd.packet_path == PSA_PacketPath_t.NORMAL_MULTICAST) { hdr.request.path = 2; }
        if (istd.packet_path == PSA_PacketPath_t.CLONE_I2E) { hdr.request.path = 3; }
        if (istd.packet_path == PSA_PacketPath_t.CLONE_E2E) { hdr.request.path = 4; }
        hdr.request.port = (bit<8>)(PortIdUint_t)istd.egress_port;
        if (hdr.request.what == 1) { hdr.request.more = (bit<16>)(ClassOfServiceUint_t)istd.class_of_service; }
        if (hdr.request.what == 2) { hdr.request.more = (EgressInstanceUint_t)istd.instance; }
        if (hdr.request.what == 5 && istd.egress_port == PSA_PORT_RECIRCULATE) {
            hdr.request.port = 6;
            hdr.request.more = 0x100;
        }
        if (hdr.request.what == 0x0d && istd.packet_path != PSA_PacketPath_t.CLONE_E2E) {
            ostd.clone = true;
            ostd.clone_session_id = (CloneSessionId_t)5;
            egress_drop(ostd);
        }
    }
}
control ED(packet_out p, out mark_t cloned, out mark_t recirculated, inout headers hdr, in metadata md,
           in psa_egress_output_metadata_t istd, in psa_egress_deparser_input_metadata_t edstd) {
    apply {
        if (psa_clone_e2e(istd)) { cloned.value = 0x0e; }
        if (psa_recirculate(istd, edstd)) { recirculated.value = 0x55; }
        p.emit(hdr);
    }
}

IngressPipeline(IP(), I(), ID()) ingress;
EgressPipeline(EP(), E(), ED()) egress;
PSA_Switch(ingress, PacketReplicationEngine(), egress, BufferingQueueingEngine()) main;
