"""Reads all counters and registers of a switch over plain gRPC: the messages of P4Runtime and
nothing else.

    python cells.py [ADDRESS [DEVICE_ID]]        # 127.0.0.1:9559, 0

Other languages do the same with stubs made of p4runtime.proto.
"""

import sys

import grpc
from finsy.proto import p4r, p4r_grpc  # or p4.v1.p4runtime_pb2 and _grpc of the package p4runtime


def main(address: str = "127.0.0.1:9559", device_id: str = "0") -> None:
    """Prints the cells that are not 0, by the names in the P4Info."""
    stub = p4r_grpc.P4RuntimeStub(grpc.insecure_channel(address))
    device = int(device_id)
    ask = p4r.GetForwardingPipelineConfigRequest(device_id=device)
    p4info = stub.GetForwardingPipelineConfig(ask).config.p4info
    counters = {each.preamble.id: each.preamble.name for each in p4info.counters}
    registers = {each.preamble.id: each.preamble.name for each in p4info.registers}
    # An entry without index stands for all cells. Reading needs no arbitration.
    wanted = [p4r.Entity(counter_entry=p4r.CounterEntry(counter_id=n)) for n in counters]
    wanted += [p4r.Entity(register_entry=p4r.RegisterEntry(register_id=n)) for n in registers]
    for answer in stub.Read(p4r.ReadRequest(device_id=device, entities=wanted)):
        for entity in answer.entities:
            if entity.HasField("counter_entry"):
                cell = entity.counter_entry
                packets, octets = cell.data.packet_count, cell.data.byte_count
                if packets or octets:
                    name = counters[cell.counter_id]
                    print(f"{name}[{cell.index.index}] {packets} packets, {octets} bytes")
            elif value := int.from_bytes(entity.register_entry.data.bitstring):
                register = entity.register_entry
                print(f"{registers[register.register_id]}[{register.index.index}] {value}")


main(*sys.argv[1:])
