use super::super::Guarantee;
use super::*;

const FRAME: u64 = 1_538;
const RATE: BitRate = BitRate::from_mbps(100);
const PARAMS: CoordinationParams = CoordinationParams {
    period: Duration::from_micros(1_000),
    delay: Duration::from_micros(100),
};

/// A VM that sends to VM 0, which is the first.
struct Vm {
    pacer: VmPacer<Option<usize>, ()>,
    hose: Coordination<usize>,
    /// When its packets left.
    sent: Vec<Instant>,
}

impl Vm {
    fn new() -> Self {
        let guarantee = Guarantee {
            rate: RATE,
            burst_bytes: 2 * FRAME,
            peak: BitRate::from_mbps(1_000),
        };
        Vm {
            pacer: VmPacer::new(guarantee, FRAME, 1 << 30),
            hose: Coordination::new(RATE, PARAMS),
            sent: Vec::new(),
        }
    }

    fn offer(&mut self, now: Instant, packets: usize, bytes: u64) {
        for _ in 0..packets {
            let rate = self.hose.handle_packet(now, 0);
            assert!(self.pacer.enqueue(now, Some(0), bytes, (), rate).is_ok());
        }
    }
}

/// Lets VMs run for so many steps of 10 us, with messages that take as long.
fn run(vms: &mut [Vm], from: Instant, steps: u64) {
    run_with(vms, from, steps, |_, _| ());
}

/// The same with packets that `offer` adds before each step.
fn run_with(vms: &mut [Vm], from: Instant, steps: u64, mut offer: impl FnMut(&mut [Vm], Instant)) {
    let mut under_way = Vec::new();
    for step in 0..steps {
        let now = from + Duration::from_micros(10) * step;
        for (from, to, message) in std::mem::take(&mut under_way) {
            let vm: &mut Vm = &mut vms[to];
            vm.hose.handle_message(now, from, message, &mut vm.pacer);
        }
        offer(vms, now);
        for (number, vm) in vms.iter_mut().enumerate() {
            let say = |to, message| under_way.push((number, to, message));
            vm.hose.poll(now, &mut vm.pacer, say);
            while let Some(departure) = vm.pacer.poll(now) {
                vm.sent.push(departure.at);
            }
        }
    }
}

#[test]
fn before_a_grant_only_the_burst_leaves() {
    let mut vms = [Vm::new(), Vm::new()];
    vms[1].offer(Instant::ZERO, 10, FRAME);
    run(&mut vms[..], Instant::ZERO, 3);
    assert_eq!(vms[1].sent.len(), 2);
}

#[test]
fn senders_together_keep_to_the_rate_of_the_receiver_and_use_it() {
    let mut vms: Vec<Vm> = (0..5).map(|_| Vm::new()).collect();
    for sender in &mut vms[1..] {
        sender.offer(Instant::ZERO, 2_000, FRAME);
    }
    let span = Duration::from_micros(200_000);
    run(&mut vms, Instant::ZERO, 20_000);
    let sent: Vec<u64> = vms[1..].iter().map(|vm| vm.sent.len() as u64).collect();
    let most = RATE.bytes_in(span) + 4 * 2 * FRAME;
    let all = sent.iter().sum::<u64>() * FRAME;
    assert!(all <= most && all * 100 >= most * 95, "{all} of {most}");
    let (least, most) = (sent.iter().min(), sent.iter().max());
    assert!(least >= most.map(|most| most * 9 / 10).as_ref(), "{sent:?}");
}

#[test]
fn a_sender_with_nothing_to_send_says_nothing() {
    let mut vms = [Vm::new(), Vm::new()];
    assert_eq!(vms[1].hose.next_deadline(), None);
    vms[1].offer(Instant::ZERO, 1, FRAME);
    assert_eq!(vms[1].hose.next_deadline(), Some(Instant::ZERO));
    run(&mut vms[..], Instant::ZERO, 2_000);
    assert_eq!(vms[1].hose.next_deadline(), None);
    assert_eq!(vms[0].hose.next_deadline(), None);
}

/// Acknowledgments are short: the bucket is full again before the next one, so at most instants
/// nothing is missing or waits.
#[test]
fn a_sender_of_short_packets_keeps_its_lease() {
    let mut vms = [Vm::new(), Vm::new()];
    let mut offered = Vec::new();
    run_with(&mut vms[..], Instant::ZERO, 2_000, |vms, now| {
        // All but the first between two demands.
        if now == Instant::ZERO || now.since(Instant::ZERO).as_nanos() % 20_000 == 10_000 {
            vms[1].offer(now, 1, 84);
            offered.push(now);
        }
    });
    // Until the first grant it had its burst alone.
    assert_eq!(vms[1].sent[150..], offered[150..]);
}
