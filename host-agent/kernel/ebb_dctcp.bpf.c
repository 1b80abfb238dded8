// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// DCTCP (RFC 8257) for the kernel's TCP, as a BPF program (struct_ops): for kernels that have no module of it.
//
// The kernel asks programs of this kind for a licence that is compatible with the GPL, so this file has two; the rest of
// Ebb is under Apache-2.0.
//
// Members of the kernel's structures that it reads and writes are declared here with the kernel's names; their places
// come from the kernel's BTF when it is loaded, so it runs on any kernel from 5.13 on that has BTF.

#include <linux/bpf.h>
#include <stdbool.h>

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#define OF_KERNEL __attribute__((preserve_access_index))
#define IN_KERNEL(result) __attribute__((section("struct_ops"), used)) result

enum tcp_ca_event {
    CA_EVENT_TX_START,
    CA_EVENT_CWND_RESTART,
    CA_EVENT_COMPLETE_CWR,
    CA_EVENT_LOSS,
    CA_EVENT_ECN_NO_CE,
    CA_EVENT_ECN_IS_CE,
};

enum {
    CA_ACK_ECE = 4,          // in_ack_event: the ACK has ECE
    ICSK_ACK_TIMER = 2,      // icsk_ack.pending: an ACK is being delayed
    TCP_ECN_DEMAND_CWR = 4,  // ecn_flags: ACKs have ECE until this is taken back
    TCP_CONG_NEEDS_ECN = 2,  // flags: connections negotiate ECN, whatever net.ipv4.tcp_ecn says
};

struct sock {
    int unused;
} OF_KERNEL;

struct inet_connection_sock {
    __u64 icsk_ca_priv[13];
    struct {
        __u8 pending;
    } icsk_ack;
} OF_KERNEL;

struct tcp_sock {
    struct inet_connection_sock inet_conn;
    __u32 rcv_nxt;
    __u32 snd_nxt;
    __u32 snd_una;
    __u32 snd_cwnd;
    __u32 snd_ssthresh;
    __u8 ecn_flags;
} OF_KERNEL;

struct tcp_congestion_ops {
    char name[16];
    __u32 flags;
    void (*init)(struct sock *sk);
    __u32 (*ssthresh)(struct sock *sk);
    void (*cong_avoid)(struct sock *sk, __u32 ack, __u32 acked);
    void (*in_ack_event)(struct sock *sk, __u32 flags);
    void (*cwnd_event)(struct sock *sk, enum tcp_ca_event event);
    __u32 (*undo_cwnd)(struct sock *sk);
};

// Slow start and additive increase are Reno's (RFC 8257 3.3: as in RFC 5681).
extern void tcp_reno_cong_avoid(struct sock *sk, __u32 ack, __u32 acked) __ksym;

// Fractions are of 1 << FRACTION_BITS.
#define FRACTION_BITS 20
// g = 1/16, the weight of the newest observation window (RFC 8257 4.2).
#define GAIN_BITS 4
#define MAX(a, b) ((a) > (b) ? (a) : (b))

// State of a connection, in the place that the kernel has for it.
struct dctcp {
    __u32 alpha;           // estimated fraction of marked bytes
    __u32 last_una;        // snd_una at the last ACK
    __u32 window_end;      // the observation window ends when this is acknowledged
    __u32 acked_bytes;     // in this observation window
    __u32 marked_bytes;    // of those, acknowledged with ECE
    __u32 cwnd_before;     // window before the last reduction, for an undo
    __u32 last_rcv_nxt;    // rcv_nxt before the packet that arrives now
    bool ce;               // DCTCP.CE: the last packet was marked
};

#ifdef EBB_TRACE
// Every ACK of every connection, in order, which tests compare with RFC 8257's formula.
struct ack_seen {
    __u32 una;
    __u32 next;
    __u32 acked;
    __u32 ece;
    __u32 alpha;  // after it
};
struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 8192);
    __type(key, __u32);
    __type(value, struct ack_seen);
} ebb_acks SEC(".maps");
__u32 acks_seen;

static void trace(struct ack_seen seen)
{
    __u32 index = __sync_fetch_and_add(&acks_seen, 1);

    bpf_map_update_elem(&ebb_acks, &index, &seen, BPF_ANY);
}
#endif

static struct dctcp *state_of(struct sock *sk)
{
    return (struct dctcp *)((struct inet_connection_sock *)sk)->icsk_ca_priv;
}

IN_KERNEL(void) BPF_PROG(ebb_dctcp_init, struct sock *sk)
{
    const struct tcp_sock *tcp = (struct tcp_sock *)sk;
    struct dctcp *state = state_of(sk);

    // RFC 8257 3.3: an estimate of 1 makes the first reaction the one of Reno.
    state->alpha = 1 << FRACTION_BITS;
    state->last_una = tcp->snd_una;
    state->window_end = tcp->snd_nxt;
    state->acked_bytes = 0;
    state->marked_bytes = 0;
    state->cwnd_before = 0;
    state->last_rcv_nxt = tcp->rcv_nxt;
    state->ce = false;
}

// RFC 8257 3.3, steps 1 to 8.
static void observe(const struct tcp_sock *tcp, struct dctcp *state, __u32 acked, bool ece)
{
    __u64 fraction;

    state->acked_bytes += acked;
    if (ece)
        state->marked_bytes += acked;
    if ((__s32)(tcp->snd_una - state->window_end) <= 0 || state->acked_bytes == 0)
        return;
    fraction = ((__u64)state->marked_bytes << FRACTION_BITS) / state->acked_bytes;
    // At least 1 is taken away, so that the estimate reaches 0.
    state->alpha -= state->alpha ? MAX(state->alpha >> GAIN_BITS, 1) : 0;
    state->alpha += fraction >> GAIN_BITS;
    state->window_end = tcp->snd_nxt;
    state->acked_bytes = 0;
    state->marked_bytes = 0;
}

IN_KERNEL(void) BPF_PROG(ebb_dctcp_in_ack_event, struct sock *sk, __u32 flags)
{
    const struct tcp_sock *tcp = (struct tcp_sock *)sk;
    struct dctcp *state = state_of(sk);
    __u32 acked = tcp->snd_una - state->last_una;
    bool ece = flags & CA_ACK_ECE;

    state->last_una = tcp->snd_una;
    observe(tcp, state, acked, ece);
#ifdef EBB_TRACE
    trace((struct ack_seen){tcp->snd_una, tcp->snd_nxt, acked, ece, state->alpha});
#endif
}

// RFC 8257 3.3, step 9; the kernel asks once per window.
IN_KERNEL(__u32) BPF_PROG(ebb_dctcp_ssthresh, struct sock *sk)
{
    const struct tcp_sock *tcp = (struct tcp_sock *)sk;
    struct dctcp *state = state_of(sk);
    __u32 cwnd = tcp->snd_cwnd;

    state->cwnd_before = cwnd;
    return MAX(cwnd - (__u32)(((__u64)cwnd * state->alpha) >> (FRACTION_BITS + 1)), 2);
}

IN_KERNEL(void) BPF_PROG(ebb_dctcp_cong_avoid, struct sock *sk, __u32 ack, __u32 acked)
{
    tcp_reno_cong_avoid(sk, ack, acked);
}

// RFC 8257 3.2: ACKs tell which bytes were marked. A packet that differs from those before ends what they share an
// ACK with: that one leaves now, with the old state.
static void ce_changes(struct sock *sk, struct dctcp *state, bool ce)
{
    struct tcp_sock *tcp = (struct tcp_sock *)sk;

    if (ce != state->ce && (tcp->inet_conn.icsk_ack.pending & ICSK_ACK_TIMER)) {
        if (state->ce)
            tcp->ecn_flags |= TCP_ECN_DEMAND_CWR;
        else
            tcp->ecn_flags &= ~TCP_ECN_DEMAND_CWR;
        bpf_tcp_send_ack(tcp, state->last_rcv_nxt);
    }
    state->last_rcv_nxt = tcp->rcv_nxt;
    state->ce = ce;
    if (ce)
        tcp->ecn_flags |= TCP_ECN_DEMAND_CWR;
    else
        tcp->ecn_flags &= ~TCP_ECN_DEMAND_CWR;
}

IN_KERNEL(void) BPF_PROG(ebb_dctcp_cwnd_event, struct sock *sk, enum tcp_ca_event event)
{
    struct tcp_sock *tcp = (struct tcp_sock *)sk;
    struct dctcp *state = state_of(sk);

    if (event == CA_EVENT_ECN_IS_CE || event == CA_EVENT_ECN_NO_CE) {
        ce_changes(sk, state, event == CA_EVENT_ECN_IS_CE);
    } else if (event == CA_EVENT_LOSS) {
        // RFC 8257 3.5: a loss halves.
        state->cwnd_before = tcp->snd_cwnd;
        tcp->snd_ssthresh = MAX(tcp->snd_cwnd / 2, 2);
    }
}

IN_KERNEL(__u32) BPF_PROG(ebb_dctcp_undo_cwnd, struct sock *sk)
{
    const struct tcp_sock *tcp = (struct tcp_sock *)sk;

    return MAX(tcp->snd_cwnd, state_of(sk)->cwnd_before);
}

__attribute__((section(".struct_ops"), used)) struct tcp_congestion_ops ebb_dctcp = {
    .name = "ebb_dctcp",
    .flags = TCP_CONG_NEEDS_ECN,
    .init = (void *)ebb_dctcp_init,
    .ssthresh = (void *)ebb_dctcp_ssthresh,
    .cong_avoid = (void *)ebb_dctcp_cong_avoid,
    .in_ack_event = (void *)ebb_dctcp_in_ack_event,
    .cwnd_event = (void *)ebb_dctcp_cwnd_event,
    .undo_cwnd = (void *)ebb_dctcp_undo_cwnd,
};

char _license[] __attribute__((section("license"), used)) = "Dual MIT/GPL";
