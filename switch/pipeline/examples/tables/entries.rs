//! Entries of the tables, and packets for them.

use std::collections::BTreeSet;

use ebb_pipeline::Pipeline;
use ebb_pipeline::control::{ActionCall, Group, GroupMember, MatchKey, TableAction, TableEntry};
use ebb_units::Instant;

pub const ROUTES: usize = 10_000;
pub const ACL_ENTRIES: usize = 500;
pub const MEMBERS: u32 = 16;
const GROUPS: u32 = 16;

/// Prefix lengths, and how many of 100 routes have each: about as in the Internet's routing table.
const LENGTHS: [(u32, u32); 12] = [
    (24, 59),
    (23, 10),
    (22, 11),
    (21, 5),
    (20, 4),
    (19, 3),
    (18, 2),
    (17, 1),
    (16, 2),
    (14, 1),
    (12, 1),
    (32, 1),
];

/// Pseudorandom numbers, the same in every run: an LCG (Knuth, MMIX).
pub struct Random(pub u64);

impl Random {
    fn next(&mut self) -> u32 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 32) as u32
    }

    pub fn below(&mut self, n: u32) -> u32 {
        ((u64::from(self.next()) * u64::from(n)) >> 32) as u32
    }

    fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u32) as usize]
    }
}

/// An address and the length of its prefix.
pub type Route = (u32, u32);

fn mask(bits: u32) -> u32 {
    u32::MAX.checked_shl(32 - bits).unwrap_or(0)
}

/// Fills the tables. The addresses of routes are outside of 172/8.
pub fn install(pipeline: &mut Pipeline, random: &mut Random) -> Result<Vec<Route>, String> {
    install_groups(pipeline)?;
    let table = pipeline.table("RouterIngress.route").map_err(text)?;
    let mut routes = BTreeSet::new();
    while routes.len() < ROUTES {
        let mut draw = random.below(100);
        let length = LENGTHS.iter().find(|(_, share)| {
            let found = draw < *share;
            draw = draw.saturating_sub(*share);
            found
        });
        let length = length.map_or(24, |(length, _)| *length);
        let address = random.next() & mask(length);
        if address >> 24 == 172 || !routes.insert((address, length)) {
            continue;
        }
        let value = address.to_be_bytes().to_vec();
        let key = vec![MatchKey::Lpm {
            value,
            prefix_len: length,
        }];
        let action = TableAction::Group(1 + random.below(GROUPS));
        add(pipeline, table, key, 0, action)?;
    }
    install_acl(pipeline, random)?;
    Ok(routes.into_iter().collect())
}

fn install_groups(pipeline: &mut Pipeline) -> Result<(), String> {
    let table = pipeline.table("RouterIngress.route").map_err(text)?;
    let profile = pipeline.table_info(table).profile.ok_or("no profile")?;
    let action = pipeline
        .table_action(table, "RouterIngress.set_next_hop")
        .map_err(text)?;
    for member in 0..MEMBERS {
        let params = vec![vec![member as u8 + 1], vec![2, 0, 0, 0, 0, member as u8]];
        let call = ActionCall { action, params };
        pipeline
            .insert_member(profile, member, call)
            .map_err(text)?;
    }
    for group in 1..=GROUPS {
        let member = |member| GroupMember {
            member,
            weight: 1,
            watch_port: None,
        };
        let group_of_all = Group {
            members: (0..MEMBERS).map(member).collect(),
            max_size: 0,
        };
        pipeline
            .insert_group(profile, group, group_of_all)
            .map_err(text)?;
    }
    Ok(())
}

/// Each entry matches sources in 172/8 or ports below 1024, which no packet has.
fn install_acl(pipeline: &mut Pipeline, random: &mut Random) -> Result<(), String> {
    let table = pipeline.table("RouterIngress.acl").map_err(text)?;
    let action = pipeline
        .table_action(table, "RouterIngress.deny")
        .map_err(text)?;
    let mut installed = 0;
    while installed < ACL_ENTRIES {
        let by_source = random.below(2) == 0;
        let source = match by_source {
            true => random.pick(&[12, 16, 24, 32]),
            false => 0,
        };
        let destination = random.pick(&[0, 8, 16, 24, 32]);
        let protocol = random.pick(&[0u8, 0xff]);
        let port = match by_source {
            true => random.pick(&[0u16, 0xffff]),
            false => 0xffff,
        };
        let address = |length, random: &mut Random, first: u32| MatchKey::Ternary {
            value: ((first << 24 | random.next() >> 8) & mask(length))
                .to_be_bytes()
                .to_vec(),
            mask: mask(length).to_be_bytes().to_vec(),
        };
        let first = random.below(224);
        let key = vec![
            address(source, random, 172),
            address(destination, random, first),
            MatchKey::Ternary {
                value: vec![random.pick(&[6, 17]) & protocol],
                mask: vec![protocol],
            },
            MatchKey::Any,
            MatchKey::Ternary {
                value: (random.below(1024) as u16 & port).to_be_bytes().to_vec(),
                mask: port.to_be_bytes().to_vec(),
            },
        ];
        let call = ActionCall {
            action,
            params: Vec::new(),
        };
        let priority = installed as i32 + 1;
        if add(pipeline, table, key, priority, TableAction::Direct(call)).is_ok() {
            installed += 1;
        }
    }
    Ok(())
}

fn add(
    pipeline: &mut Pipeline,
    table: ebb_pipeline::TableId,
    key: Vec<MatchKey>,
    priority: i32,
    action: TableAction,
) -> Result<(), String> {
    let entry = TableEntry {
        key,
        priority,
        action,
        idle_timeout: None,
        metadata: Vec::new(),
    };
    let added = pipeline.insert_entry(Instant::ZERO, table, entry);
    added.map(drop).map_err(text)
}

fn text(error: impl ToString) -> String {
    error.to_string()
}

/// UDP frames of 60 bytes from 10/8 to addresses that have a route.
pub fn flows(count: usize, routes: &[Route], random: &mut Random) -> Vec<Vec<u8>> {
    let flow = |_| {
        let (address, length) = random.pick(routes);
        let source = 10 << 24 | random.next() >> 8;
        let destination = address | random.next() & !mask(length);
        let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0];
        frame.extend([0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17, 0, 0]);
        frame.extend(source.to_be_bytes());
        frame.extend(destination.to_be_bytes());
        for _ in 0..2 {
            frame.extend((1024 + random.below(60_000) as u16).to_be_bytes());
        }
        frame.resize(60, 0);
        frame
    };
    (0..count).map(flow).collect()
}
