// SPDX-License-Identifier: Apache-2.0
//
// Depths of the queues of all ports, for adaptive_routing.p4; Tofino 2 only. The traffic manager reports every change
// of a queue's depth to the ghost thread, which runs beside ingress and writes the depth into registers that ingress
// reads. ../../include/queue_state.p4 has the sum of a queue and those above it; here it is the queue alone.
//
// A packet can read a register once, at one place. So there is a register for each pair of a threshold and one of the
// eight ports among which a packet may choose; all have the same content.

#ifndef TNA_QUEUE_STATE_P4
#define TNA_QUEUE_STATE_P4

#include "headers.p4"

typedef bit<12> queue_index_t;               // port * 8 + queue
const bit<32> QUEUES_OF_PORTS = 4096;

#define QUEUE_REGISTER(name) Register<bit<32>, queue_index_t>(QUEUES_OF_PORTS, 0) name;

QUEUE_REGISTER(most_drain0)
QUEUE_REGISTER(most_drain1)
QUEUE_REGISTER(most_drain2)
QUEUE_REGISTER(most_drain3)
QUEUE_REGISTER(most_drain4)
QUEUE_REGISTER(most_drain5)
QUEUE_REGISTER(most_drain6)
QUEUE_REGISTER(most_drain7)
QUEUE_REGISTER(favoured_drain0)
QUEUE_REGISTER(favoured_drain1)
QUEUE_REGISTER(favoured_drain2)
QUEUE_REGISTER(favoured_drain3)
QUEUE_REGISTER(favoured_drain4)
QUEUE_REGISTER(favoured_drain5)
QUEUE_REGISTER(favoured_drain6)
QUEUE_REGISTER(favoured_drain7)

#define WRITER(name) \
    RegisterAction<bit<32>, queue_index_t, bit<32>>(name) write_##name = { \
        void apply(inout bit<32> drain) { \
            drain = (bit<32>)depth; \
        } \
    };

control QueueState(in ghost_intrinsic_metadata_t gh_intr_md) {
    queue_index_t index = 0;
    bit<16> depth = 0;                       // cells; a register's action cannot read a field inside a container

    WRITER(most_drain0)
    WRITER(most_drain1)
    WRITER(most_drain2)
    WRITER(most_drain3)
    WRITER(most_drain4)
    WRITER(most_drain5)
    WRITER(most_drain6)
    WRITER(most_drain7)
    WRITER(favoured_drain0)
    WRITER(favoured_drain1)
    WRITER(favoured_drain2)
    WRITER(favoured_drain3)
    WRITER(favoured_drain4)
    WRITER(favoured_drain5)
    WRITER(favoured_drain6)
    WRITER(favoured_drain7)

    action set_queue_index(queue_index_t queue_index) {
        index = queue_index;
        depth = gh_intr_md.qlength[15:0];
    }

    @brief("which queue of which port the traffic manager means: port * 8 + queue")
    table queue_of_port {
        key = {
            gh_intr_md.pipe_id : exact @name("pipe");        // 2 bits
            gh_intr_md.qid     : exact @name("qid");         // 11 bits: port group ++ queue of it
        }
        actions = {
            set_queue_index;
            @defaultonly NoAction;
        }
        const default_action = NoAction();
        size = 4096;
    }

    apply {
        if (queue_of_port.apply().hit) {
            write_most_drain0.execute(index);
            write_most_drain1.execute(index);
            write_most_drain2.execute(index);
            write_most_drain3.execute(index);
            write_most_drain4.execute(index);
            write_most_drain5.execute(index);
            write_most_drain6.execute(index);
            write_most_drain7.execute(index);
            write_favoured_drain0.execute(index);
            write_favoured_drain1.execute(index);
            write_favoured_drain2.execute(index);
            write_favoured_drain3.execute(index);
            write_favoured_drain4.execute(index);
            write_favoured_drain5.execute(index);
            write_favoured_drain6.execute(index);
            write_favoured_drain7.execute(index);
        }
    }
}

#undef WRITER

#endif
