//! The tables of the packet generator: ports, applications, the buffer, and the masks of Tofino 2.

use ebb_pipeline::generator::{Application, Generator, PortRole, Trigger};
use ebb_units::Duration;

use super::rows::{self, Column, Row, Spec};
use crate::bytes;
use crate::entities::Context;
use crate::error::{EntityError, Result};
use crate::proto::bf_runtime as bf;
use crate::proto::bf_runtime::data_field::{IntArray, Value};
use crate::proto::bf_runtime::update::Type;

const PORTS: u32 = 0xff03_0001;
const APPLICATIONS: u32 = 0xff03_0002;
const BUFFER: u32 = 0xff03_0003;
const MASKS: u32 = 0xff03_0004;

/// Columns of ports.
mod port {
    pub const LEADS_BACK: u32 = 1;
    pub const GENERATES: u32 = 2;
    pub const LOOKS_FOR_PATTERNS: u32 = 3;
    pub const REARM: u32 = 4;
}

/// Columns of applications, and the numbers of their triggers.
mod app {
    pub const ONCE: u32 = 1;
    pub const EVERY: u32 = 2;
    pub const PORT_DOWN: u32 = 3;
    pub const PATTERN: u32 = 4;

    pub const TIMER_NS: u32 = 1;
    pub const MASK_NUMBER: u32 = 3;
    pub const VALUE: u32 = 4;
    pub const MASK: u32 = 5;
    pub const ENABLED: u32 = 12;
    pub const LENGTH: u32 = 13;
    pub const OFFSET: u32 = 14;
    pub const SOURCE_PORT: u32 = 15;
    pub const MORE_BATCHES: u32 = 17;
    pub const MORE_PACKETS: u32 = 18;
    pub const BATCH_GAP_NS: u32 = 19;
    pub const PACKET_GAP_NS: u32 = 21;
    /// Triggers, batches, packets.
    pub const COUNTS: [u32; 3] = [25, 23, 24];
    pub const CHANNEL: u32 = 28;
    /// Columns that must be 0, with what they would do.
    pub const MISSING: [(u32, &str); 5] = [
        (16, "ports that are counted up"),
        (20, "jitter between batches"),
        (22, "jitter between packets"),
        (26, "places in the buffer by packet"),
        (27, "a port at which counting begins anew"),
    ];
}

const TIMER: &[Column] = &[(app::TIMER_NS, "timer_nanosec", "uint32", false)];

const PORT_TABLE: Spec = Spec {
    name: "pktgen.port_cfg",
    id: PORTS,
    kind: "PktgenPortCfg",
    size: 256,
    key: &[(1, "dev_port", "uint32", false)],
    data: &[
        (port::LEADS_BACK, "recirculation_enable", "bool", false),
        (port::GENERATES, "pktgen_enable", "bool", false),
        (
            port::LOOKS_FOR_PATTERNS,
            "pattern_matching_enable",
            "bool",
            false,
        ),
        (port::REARM, "clear_port_down_enable", "bool", false),
    ],
    actions: &[],
};

const BUFFER_TABLE: Spec = Spec {
    name: "pktgen.pkt_buffer",
    id: BUFFER,
    kind: "PktgenPktBufferCfg",
    size: 1024,
    key: &[
        (1, "pkt_buffer_offset", "uint32", false),
        (2, "pkt_buffer_size", "uint32", false),
    ],
    data: &[(1, "buffer", "bytes/8", true)],
    actions: &[],
};

/// Columns of applications that both generations have; `short` is the type of numbers of 16 bits.
const fn columns(short: &'static str) -> [Column; 14] {
    [
        (app::ENABLED, "app_enable", "bool", false),
        (app::LENGTH, "pkt_len", short, false),
        (app::OFFSET, "pkt_buffer_offset", short, false),
        (app::SOURCE_PORT, "pipe_local_source_port", "uint32", false),
        (16, "increment_source_port", "bool", false),
        (app::MORE_BATCHES, "batch_count_cfg", short, false),
        (app::MORE_PACKETS, "packets_per_batch_cfg", short, false),
        (app::BATCH_GAP_NS, "ibg", "uint32", false),
        (20, "ibg_jitter", "uint32", false),
        (app::PACKET_GAP_NS, "ipg", "uint32", false),
        (22, "ipg_jitter", "uint32", false),
        (app::COUNTS[1], "batch_counter", "uint64", false),
        (app::COUNTS[2], "pkt_counter", "uint64", false),
        (app::COUNTS[0], "trigger_counter", "uint64", false),
    ]
}

/// Columns of the applications of Tofino 2: three more.
const fn columns_of_second() -> [Column; 17] {
    let mut all = [(app::CHANNEL, "assigned_chnl_id", "bytes/8", false); 17];
    let shared = columns("bytes/16");
    let mut i = 0;
    while i < shared.len() {
        all[i] = shared[i];
        i += 1;
    }
    all[i] = (26, "offset_len_from_recir_pkt_enable", "bool", false);
    all[i + 1] = (27, "source_port_wrap_max", "bytes/8", false);
    all
}

/// The table of applications, with what differs between generations.
const fn application_table(
    size: u32,
    data: &'static [Column],
    actions: &'static [rows::Action],
) -> Spec {
    Spec {
        name: "pktgen.app_cfg",
        id: APPLICATIONS,
        kind: "PktgenAppCfg",
        size,
        key: &[(1, "app_id", "uint32", false)],
        data,
        actions,
    }
}

/// Triggers of applications, with the columns of two of them.
const fn triggers(port_down: &'static [Column], pattern: &'static [Column]) -> [rows::Action; 4] {
    [
        (app::ONCE, "trigger_timer_one_shot", TIMER),
        (app::EVERY, "trigger_timer_periodic", TIMER),
        (app::PORT_DOWN, "trigger_port_down", port_down),
        (app::PATTERN, "trigger_recirc_pattern", pattern),
    ]
}

/// The tables of Tofino.
const FIRST: &[Spec] = &[
    PORT_TABLE,
    application_table(
        8,
        &const { columns("uint16") },
        &const {
            triggers(
                &[],
                &[
                    (app::VALUE, "pattern_value", "uint32", false),
                    (app::MASK, "pattern_mask", "uint32", false),
                ],
            )
        },
    ),
    BUFFER_TABLE,
];

/// The tables of Tofino 2.
const SECOND: &[Spec] = &[
    PORT_TABLE,
    application_table(
        16,
        &const { columns_of_second() },
        &const {
            triggers(
                &[(app::MASK_NUMBER, "port_mask_sel", "uint32", false)],
                &[
                    (app::VALUE, "pattern_value", "bytes/128", false),
                    (app::MASK, "pattern_mask", "bytes/128", false),
                ],
            )
        },
    ),
    BUFFER_TABLE,
    Spec {
        name: "pktgen.port_mask",
        id: MASKS,
        kind: "PktgenPortMaskCfg",
        size: 2,
        key: &[(1, "port_mask_sel", "uint32", false)],
        data: &[(1, "mask", "bytes/72", false)],
        actions: &[],
    },
];

/// The tables of a generation of the chip.
pub fn tables(is_second: bool) -> &'static [Spec] {
    if is_second { SECOND } else { FIRST }
}

/// Whether a table is one of the packet generator.
pub fn has(table: u32) -> bool {
    (PORTS..=MASKS).contains(&table)
}

/// Carries out an update. Rows are there from the beginning, so INSERT and MODIFY are the same, and DELETE puts the
/// initial state back.
pub fn write(ctx: &mut Context, spec: &Spec, kind: Type, entry: &bf::TableEntry) -> Result<()> {
    let key = rows::keys(spec, entry)?;
    match kind {
        Type::Insert | Type::Modify | Type::InsertOrModify => {
            let key = key.ok_or_else(|| EntityError::invalid("the entry has no key"))?;
            match spec.id {
                PORTS => write_port(ctx, spec, &key, entry),
                APPLICATIONS => write_application(ctx, spec, &key, entry),
                BUFFER => write_buffer(ctx, spec, &key, entry),
                _ => write_mask(ctx, spec, &key, entry),
            }
        }
        Type::Delete | Type::Reset => reset(ctx, spec, key.as_deref()),
        Type::ModifyInc | Type::Unspecified => Err(EntityError::invalid(
            "rows of the packet generator are written by MODIFY",
        )),
    }
}

/// The entries that an entry of a request selects.
pub fn read(ctx: &mut Context, spec: &Spec, entry: &bf::TableEntry) -> Result<Vec<bf::TableEntry>> {
    let key = rows::keys(spec, entry)?;
    let looped: Vec<u16> = ctx.pipeline.loopback_ports().collect();
    let generator = of(ctx)?;
    match spec.id {
        PORTS => {
            let ports: Vec<_> = match key.as_deref() {
                Some([port]) => vec![(port_number(*port)?, PortRole::default())],
                _ => generator.ports().collect(),
            };
            let known = |port| generator.ports().find(|(of, _)| *of == port);
            let rows = ports.into_iter().map(|(port, role)| {
                let role = known(port).map_or(role, |(_, role)| role);
                let row = port_row(role, looped.contains(&port));
                rows::answered(spec, &[port.into()], 0, &row)
            });
            Ok(rows.collect())
        }
        APPLICATIONS => {
            let all = (0..).zip(generator.applications());
            let wanted = all.filter(|(number, _)| is_wanted(key.as_deref(), *number));
            let rows = wanted.map(|(number, of)| {
                rows::answered(spec, &[number], action(of), &application_row(spec, of))
            });
            found(rows.collect())
        }
        BUFFER => {
            let Some(&[offset, size]) = key.as_deref() else {
                return Err(EntityError::invalid("name the bytes by offset and size"));
            };
            let bytes = bytes_at(generator, offset, size)?;
            let val = bytes.iter().map(|byte| u32::from(*byte)).collect();
            let row = rows::row([(1, Value::IntArrVal(IntArray { val }))]);
            Ok(vec![rows::answered(spec, &[offset, size], 0, &row)])
        }
        _ => {
            let masks = (0..).zip(generator.masks());
            let wanted = masks.filter(|(number, _)| is_wanted(key.as_deref(), *number));
            let rows = wanted.map(|(number, mask)| {
                let row = rows::row([(1, Value::Stream(bytes::padded(&mask.to_be_bytes(), 72)))]);
                rows::answered(spec, &[number], 0, &row)
            });
            found(rows.collect())
        }
    }
}

fn of<'a>(ctx: &'a mut Context) -> Result<&'a mut Generator> {
    let generator = ctx.pipeline.generator();
    generator.ok_or_else(|| {
        EntityError::unimplemented(
            "the program is for v1model, which has no packet generator; compile one for Tofino",
        )
    })
}

fn is_wanted(key: Option<&[u64]>, number: u64) -> bool {
    key.is_none_or(|key| key == [number])
}

fn found(rows: Vec<bf::TableEntry>) -> Result<Vec<bf::TableEntry>> {
    match rows.is_empty() {
        true => Err(EntityError::not_found("there is no such row")),
        false => Ok(rows),
    }
}

fn port_number(port: u64) -> Result<u16> {
    let number = u16::try_from(port).ok().filter(|port| *port < 512);
    number.ok_or_else(|| EntityError::out_of_range(format!("port {port}; allowed: 0 to 511")))
}

fn port_row(role: PortRole, leads_back: bool) -> Row {
    rows::row([
        (port::LEADS_BACK, Value::BoolVal(leads_back)),
        (port::GENERATES, Value::BoolVal(role.generates)),
        (
            port::LOOKS_FOR_PATTERNS,
            Value::BoolVal(role.looks_for_patterns),
        ),
        (port::REARM, Value::BoolVal(false)),
    ])
}

fn write_port(ctx: &mut Context, spec: &Spec, key: &[u64], entry: &bf::TableEntry) -> Result<()> {
    let number = port_number(key[0])?;
    let leads_back = ctx.pipeline.is_looped(number);
    let of_generator = match ctx.pipeline.has_flow_control() {
        false => 64..72,
        true => 0..8,
    };
    let known = of(ctx)?.ports().find(|(of, _)| *of == number);
    let old = port_row(
        known.map_or(PortRole::default(), |(_, role)| role),
        leads_back,
    );
    let row = rows::checked(spec, entry, old)?;
    let is_set = |column| rows::number(&row, column) != 0;
    if is_set(port::LEADS_BACK) && !of_generator.contains(&(number & 0x7f)) {
        return Err(EntityError::invalid(format!(
            "port {number} cannot lead back to ingress by this: ports 64 to 71 of each pipe can, on Tofino 2 ports 0 \
             to 7; others have $LOOPBACK_MODE"
        )));
    }
    ctx.pipeline.set_loopback(number, is_set(port::LEADS_BACK));
    let generator = of(ctx)?;
    generator.set_port(
        number,
        PortRole {
            generates: is_set(port::GENERATES),
            looks_for_patterns: is_set(port::LOOKS_FOR_PATTERNS),
        },
    );
    if is_set(port::REARM) {
        generator.rearm(number);
    }
    Ok(())
}

/// The number of the action that names the trigger; 0: there is none.
fn action(of: &Application) -> u32 {
    match of.trigger {
        None => 0,
        Some(Trigger::Once(_)) => app::ONCE,
        Some(Trigger::Every(_)) => app::EVERY,
        Some(Trigger::PortDown { .. }) => app::PORT_DOWN,
        Some(Trigger::Pattern { .. }) => app::PATTERN,
    }
}

fn application_row(spec: &Spec, of: &Application) -> Row {
    let number = |number: u64, bits| Value::Stream(bytes::padded(&number.to_be_bytes(), bits));
    let time = |time: Duration| number(time.as_nanos(), 32);
    let mut row = rows::row([
        (app::ENABLED, Value::BoolVal(of.is_enabled)),
        (app::LENGTH, number(of.length as u64, 16)),
        (app::OFFSET, number(of.offset as u64, 16)),
        (app::MORE_BATCHES, number(of.more_batches.into(), 16)),
        (app::MORE_PACKETS, number(of.more_packets.into(), 16)),
        (app::BATCH_GAP_NS, time(of.batch_gap)),
        (app::PACKET_GAP_NS, time(of.packet_gap)),
    ]);
    row.extend(rows::row([0, 1, 2].map(|of_count| {
        (app::COUNTS[of_count], number(of.counts[of_count], 64))
    })));
    if let Some(port) = of.source_port {
        row.extend(rows::row([(app::SOURCE_PORT, number(port.into(), 32))]));
    }
    if let Some(port) = of.channel {
        row.extend(rows::row([(app::CHANNEL, number(port.into(), 8))]));
    }
    let columns = spec.actions.iter().flat_map(|(_, _, columns)| *columns);
    let type_of = |id| {
        columns
            .clone()
            .find(|(of, ..)| *of == id)
            .map(|(_, _, ty, _)| *ty)
    };
    match of.trigger {
        Some(Trigger::Once(after) | Trigger::Every(after)) => {
            row.extend(rows::row([(app::TIMER_NS, time(after))]));
        }
        Some(Trigger::PortDown { mask }) if type_of(app::MASK_NUMBER).is_some() => {
            row.extend(rows::row([(app::MASK_NUMBER, number(mask.into(), 32))]));
        }
        Some(Trigger::PortDown { .. }) | None => {}
        Some(Trigger::Pattern { value, mask }) => {
            let bits = match type_of(app::VALUE) {
                Some("bytes/128") => 128,
                _ => 32,
            };
            let wide = |number: u128| Value::Stream(bytes::padded(&number.to_be_bytes(), bits));
            row.extend(rows::row([
                (app::VALUE, wide(value)),
                (app::MASK, wide(mask)),
            ]));
        }
    }
    row
}

fn write_application(
    ctx: &mut Context,
    spec: &Spec,
    key: &[u64],
    entry: &bf::TableEntry,
) -> Result<()> {
    let now = ctx.now;
    let generator = of(ctx)?;
    let number = usize::try_from(key[0]).unwrap_or(usize::MAX);
    let old = generator.applications().get(number).ok_or_else(|| {
        EntityError::out_of_range(format!(
            "application {number}; allowed: 0 to {}",
            spec.size - 1
        ))
    })?;
    let row = rows::checked(spec, entry, application_row(spec, old))?;
    for (column, what) in app::MISSING {
        if rows::number(&row, column) != 0 {
            return Err(EntityError::unimplemented(format!(
                "there are no {what} here"
            )));
        }
    }
    let given = entry.data.as_ref().map_or(0, |data| data.action_id);
    let kind = if given == 0 { action(old) } else { given };
    let time = |column| Duration::from_nanos(rows::number(&row, column));
    let trigger = match kind {
        app::ONCE => Some(Trigger::Once(time(app::TIMER_NS))),
        app::EVERY => Some(Trigger::Every(time(app::TIMER_NS))),
        app::PORT_DOWN => Some(Trigger::PortDown {
            mask: small(&row, app::MASK_NUMBER, 1)? as u8,
        }),
        app::PATTERN => Some(Trigger::Pattern {
            value: wide(&row, app::VALUE),
            mask: wide(&row, app::MASK),
        }),
        _ => None,
    };
    let port = |column| -> Result<Option<u16>> {
        let present = row.contains_key(&column);
        present.then(|| small(&row, column, 127)).transpose()
    };
    let to = Application {
        trigger,
        is_enabled: rows::number(&row, app::ENABLED) != 0,
        length: small(&row, app::LENGTH, u16::MAX)?.into(),
        offset: small(&row, app::OFFSET, u16::MAX)?.into(),
        source_port: port(app::SOURCE_PORT)?,
        channel: port(app::CHANNEL)?,
        more_batches: small(&row, app::MORE_BATCHES, u16::MAX)?,
        more_packets: small(&row, app::MORE_PACKETS, u16::MAX)?,
        batch_gap: time(app::BATCH_GAP_NS),
        packet_gap: time(app::PACKET_GAP_NS),
        counts: app::COUNTS.map(|column| rows::number(&row, column)),
    };
    if to.is_enabled && to.trigger.is_none() {
        return Err(EntityError::invalid(
            "an application needs a trigger before it is enabled: name an action",
        ));
    }
    bytes_at(generator, to.offset as u64, to.length as u64)?;
    generator.set_application(now, number as u8, to);
    Ok(())
}

/// A number that must not be larger than `most`.
fn small(row: &Row, column: u32, most: u16) -> Result<u16> {
    let number = rows::number(row, column);
    let fits = u16::try_from(number).ok().filter(|number| *number <= most);
    fits.ok_or_else(|| {
        EntityError::out_of_range(format!(
            "data field {column} is {number}; allowed: 0 to {most}"
        ))
    })
}

/// A number of up to 128 bits.
fn wide(row: &Row, column: u32) -> u128 {
    match row.get(&column).and_then(|field| field.value.as_ref()) {
        Some(Value::Stream(value)) => bytes::number(value),
        _ => 0,
    }
}

fn bytes_at(generator: &Generator, offset: u64, size: u64) -> Result<&[u8]> {
    let end = offset.saturating_add(size);
    let place = usize::try_from(offset).ok().zip(usize::try_from(end).ok());
    let bytes = place.and_then(|(from, to)| generator.buffer().get(from..to));
    bytes.ok_or_else(|| {
        let has = generator.buffer().len();
        EntityError::out_of_range(format!(
            "bytes {offset} to {end} of the buffer, which has {has}"
        ))
    })
}

fn write_buffer(ctx: &mut Context, spec: &Spec, key: &[u64], entry: &bf::TableEntry) -> Result<()> {
    let generator = of(ctx)?;
    bytes_at(generator, key[0], key[1])?;
    let row = rows::checked(spec, entry, Row::new())?;
    let given = match row.get(&1).and_then(|field| field.value.as_ref()) {
        Some(Value::Stream(bytes)) => bytes.clone(),
        _ => rows::numbers(&row, 1)
            .into_iter()
            .map(|byte| byte as u8)
            .collect(),
    };
    if given.len() as u64 != key[1] {
        return Err(EntityError::invalid(format!(
            "{} bytes for a place of {}",
            given.len(),
            key[1]
        )));
    }
    generator.write_buffer(key[0] as usize, &given);
    Ok(())
}

fn write_mask(ctx: &mut Context, spec: &Spec, key: &[u64], entry: &bf::TableEntry) -> Result<()> {
    let row = rows::checked(spec, entry, Row::new())?;
    let number = usize::try_from(key[0]).ok().filter(|number| *number < 2);
    let number = number
        .ok_or_else(|| EntityError::out_of_range(format!("mask {}; allowed: 0 and 1", key[0])))?;
    of(ctx)?.set_mask(number, wide(&row, 1));
    Ok(())
}

/// Puts the initial state of a row back, or of all rows.
fn reset(ctx: &mut Context, spec: &Spec, key: Option<&[u64]>) -> Result<()> {
    let now = ctx.now;
    let generator = of(ctx)?;
    match spec.id {
        PORTS => {
            let ports: Vec<_> = generator.ports().map(|(port, _)| port).collect();
            let wanted = ports
                .into_iter()
                .filter(|port| is_wanted(key, (*port).into()));
            wanted.for_each(|port| generator.set_port(port, PortRole::default()));
        }
        APPLICATIONS => {
            let numbers = 0..spec.size as u8;
            let wanted = numbers.filter(|number| is_wanted(key, (*number).into()));
            wanted.for_each(|number| {
                generator.set_application(now, number, Application::default());
            });
        }
        BUFFER => {
            let all = [0, generator.buffer().len() as u64];
            let place = key.unwrap_or(&all);
            let zeros = vec![0; bytes_at(generator, place[0], place[1])?.len()];
            generator.write_buffer(place[0] as usize, &zeros);
        }
        _ => (0..2)
            .filter(|number| is_wanted(key, *number as u64))
            .for_each(|number| generator.set_mask(number, 0)),
    }
    Ok(())
}
