//! Reading and checking configurations: the example of the documentation, and one test per
//! message.

use ebb_traffic_manager::{DepthUnit, OnFull, QueueState, TrafficManagerConfig};
use ebb_units::BitRate;

fn parse(text: &str) -> TrafficManagerConfig {
    toml::from_str(text).expect("well-formed TOML")
}

fn complaint(text: &str) -> String {
    parse(text).validate().expect_err("a refusal").to_string()
}

#[test]
fn the_documented_example_is_accepted() {
    let page = include_str!("../../../docs/architecture.md");
    let section = page
        .split("## Traffic manager configuration")
        .nth(1)
        .and_then(|rest| rest.split("```toml\n").nth(1))
        .and_then(|rest| rest.split("```").next())
        .expect("an example in the documentation");
    let config = parse(section);
    config.validate().expect("valid");
    assert_eq!(config.depth_unit, DepthUnit::Bytes);
    let profile = config.profile_of(3).expect("the default covers port 3");
    assert_eq!(profile.rate_bps, BitRate::from_mbps(20));
    assert_eq!(profile.queue[1].on_full, OnFull::Deflect);
}

/// The first example of the page, and the keys that the schema of the other page has as comments.
#[test]
fn the_examples_with_flow_control_are_accepted() {
    let page = include_str!("../../../docs/traffic-manager.md");
    let example = page
        .split("```toml\n")
        .nth(1)
        .and_then(|rest| rest.split("```").next());
    let config = parse(example.expect("an example in the documentation"));
    config.validate().expect("valid");
    let lossless = config.profile_of(1).expect("the default covers port 1");
    assert_eq!(lossless.lossless(), 0b0100_0001);

    let page = include_str!("../../../docs/architecture.md");
    let keys = page
        .split("# [pfc] ")
        .nth(1)
        .and_then(|rest| rest.split("```").next());
    let keys = format!("# [pfc] {}", keys.expect("the keys of flow control"));
    let keys = parse(&keys.replace("# [", "[").replace("\n# ", "\n"));
    let pfc = keys.pfc.expect("thresholds");
    assert_eq!((pfc.pause_bytes, pfc.max_frame_bytes), (Some(8192), 1530));
    assert_eq!(keys.export[0].what, QueueState::DrainBytes);
}

#[test]
fn queues_have_numbers_up_to_31_and_lossless_ones_up_to_7() {
    let complaint = |queue: &str| {
        let text = format!("[[profile]]\nname = \"a\"\n[[profile.queue]]\n{queue}");
        parse(&text).validate().err().map(|e| e.to_string())
    };
    assert_eq!(complaint("id = 31"), None);
    let error = complaint("id = 32").expect("a refusal");
    assert!(
        error.contains("queue ids are 0 (lowest priority) to 31"),
        "{error}"
    );
    let error = complaint("id = 8\nlossless = true").expect("a refusal");
    assert!(
        error.contains("flow control has the classes 0 to 7"),
        "{error}"
    );
}

#[test]
fn json_round_trip() {
    let config = TrafficManagerConfig::like_bmv2(2);
    let text = serde_json::to_string(&config).expect("serialisable");
    let back: TrafficManagerConfig = serde_json::from_str(&text).expect("readable");
    assert_eq!(back, config);
    back.validate().expect("valid");
}

#[test]
fn unknown_keys_are_refused_with_the_valid_ones() {
    let error = toml::from_str::<TrafficManagerConfig>("[[profile]]\nname = \"a\"\nrate = 1")
        .expect_err("a refusal")
        .to_string();
    assert!(error.contains("unknown field `rate`"), "{error}");
    assert!(error.contains("rate_bps"), "{error}");
}

/// A profile with the keys given, two queues, and flow control with the thresholds given.
fn lossless(profile: &str, queues: &str, thresholds: &str) -> String {
    format!(
        "[pfc]\n{thresholds}\n[[profile]]\nname = \"a\"\n{profile}\n\
         [[profile.queue]]\nid = 0\n{queues}"
    )
}

/// Eight lossless queues with 128 KB of ingress buffer at this rate and response time.
fn eight_lossless(rate_bps: u64, response_ns: u64, pause_bytes: u64) -> TrafficManagerConfig {
    let queues = (0..8).map(|id| format!("[[profile.queue]]\nid = {id}\nlossless = true\n"));
    parse(&format!(
        "[pfc]\npause_bytes = {pause_bytes}\nresume_bytes = 4557\nresponse_ns = {response_ns}\n\
         [[profile]]\nname = \"a\"\nrate_bps = {rate_bps}\ndelay_ns = 5476\n\
         ingress_bytes = 131072\negress_bytes = 131072\n{}",
        queues.collect::<String>()
    ))
}

/// The numbers are those of DeTail (section 5.2.3 of the thesis): 36.456 us and 4557 bytes at
/// 1 Gbit/s, 16.472 us and 20,590 bytes at 10 Gbit/s.
#[test]
fn headroom_is_computed_from_rate_and_times() {
    eight_lossless(1_000_000_000, 1024, 8192)
        .validate()
        .expect("enough headroom");
    let complaint = |rate, response, pause| {
        let config = eight_lossless(rate, response, pause);
        config.validate().expect_err("a refusal").to_string()
    };
    assert_eq!(
        complaint(10_000_000_000, 3072, 8192),
        "traffic manager: profile \"a\": 8 lossless queues need 8 * 20590 = 164720 bytes of \
         headroom alone of the 131072 bytes of ingress_bytes: a pause takes 16.472 us to stop the \
         neighbour at 10 Gbit/s; use fewer lossless queues, more ingress_bytes or a lower rate_bps"
    );
    assert_eq!(
        complaint(1_000_000_000, 1024, 11_827),
        "traffic manager: profile \"a\": 8 lossless queues need 8 * (11827 + 1614 + 4557) = 143984 \
         bytes (pause_bytes, the frame that crosses it with the PFC frame, headroom) of the 131072 \
         bytes of ingress_bytes; use a pause_bytes of at most 10213"
    );
    eight_lossless(1_000_000_000, 1024, 10_213)
        .validate()
        .expect("the threshold that was recommended");
}

#[test]
fn thresholds_that_are_not_given_are_computed_where_the_buffer_allows() {
    let complaint = |ingress_bytes: Option<u64>| {
        let mut config = eight_lossless(1_000_000_000, 1024, 8192);
        let pfc = config.pfc.as_mut().expect("flow control");
        (pfc.pause_bytes, pfc.resume_bytes) = (None, None);
        config.profile[0].ingress_bytes = ingress_bytes;
        config.profile[0].egress_bytes = ingress_bytes;
        config.validate().err().map(|error| error.to_string())
    };
    assert_eq!(complaint(Some(131_072)), None);
    let too_small = complaint(Some(8 * (4_557 + 1_614 + 100)));
    assert_eq!(
        too_small.as_deref(),
        Some(
            "traffic manager: profile \"a\": 8 lossless queues need 8 * 4557 = 36456 bytes of \
             headroom of the 50168 bytes of ingress_bytes, and as much again before they pause; use \
             fewer lossless queues, more ingress_bytes or slower links, or give pause_bytes and \
             resume_bytes"
        )
    );
    let unbuffered = complaint(None).expect("a refusal");
    assert!(unbuffered.contains("no ingress_bytes to compute its thresholds of"));
}

#[test]
fn flow_control_and_buffers_must_fit_together() {
    let thresholds = "pause_bytes = 8192\nresume_bytes = 4557";
    let cases = [
        (
            lossless("", "lossless = true", "pause_bytes = 1\nresume_bytes = 2"),
            "[pfc]: resume_bytes = 2 is above pause_bytes = 1",
        ),
        (
            lossless("", "lossless = true", "pause_bytes = 1"),
            "[pfc]: needs both pause_bytes and resume_bytes, or neither",
        ),
        (
            lossless("", "", thresholds),
            "[pfc]: is set, but no queue says lossless = true",
        ),
        (
            lossless(
                "",
                "lossless = true",
                &format!("{thresholds}\nmax_frame_bytes = 0"),
            ),
            "[pfc]: max_frame_bytes = 0",
        ),
        (
            lossless("", "lossless = true\ncapacity_packets = 9", thresholds),
            "queue 0: is lossless: omit capacity_packets",
        ),
        (
            lossless("ingress_bytes = 99", "", thresholds),
            "needs both ingress_bytes and egress_bytes, or neither",
        ),
        (
            lossless("egress_per_queue = true", "", thresholds),
            "egress_per_queue needs egress_bytes",
        ),
        (
            lossless("ingress_bytes = 0\negress_bytes = 1", "", thresholds),
            "ingress_bytes and egress_bytes must be above 0",
        ),
        (
            lossless(
                "ingress_bytes = 9\negress_bytes = 9\npool_bytes = 9",
                "",
                thresholds,
            ),
            "pool_bytes is set, but no queue",
        ),
        (
            lossless(
                "ingress_bytes = 9\negress_bytes = 9",
                "rank = true",
                thresholds,
            ),
            "omit capacity_packets, capacity_bytes, pool and rank",
        ),
        (
            lossless(
                "ingress_bytes = 9\negress_bytes = 9",
                "lossless = true",
                thresholds,
            ),
            "no buffer is large enough for a link without a limit",
        ),
        (
            lossless(
                "rate_bps = 1000000000\ningress_bytes = 14000\negress_bytes = 9",
                "lossless = true\n[[profile.queue]]\nid = 1",
                thresholds,
            ),
            "the lossless queues need 12866 of the 14000 bytes of ingress_bytes, which leaves no \
             frame for queue 1",
        ),
    ];
    for (text, expected) in cases {
        let message = complaint(&text);
        assert!(message.contains(expected), "{message}\nlacks {expected}");
    }
    let text = "[[profile]]\nname = \"a\"\n[[profile.queue]]\nid = 3\nlossless = true";
    let message = complaint(text);
    assert!(
        message.contains("queue 3 is lossless, but there is no [pfc]"),
        "{message}"
    );
}

#[test]
fn ranks_shares_and_exports_are_checked() {
    let profile = |keys: &str| {
        format!("[[profile]]\nname = \"a\"\nrate_bps = 1000\n[[profile.queue]]\nid = 0\n{keys}")
    };
    let group = |keys: &str| profile(&format!("[[profile.group]]\nqueues = [0]\n{keys}"));
    let export = "[[export]]\nwhat = \"drain-bytes\"\n";
    let cases = [
        (profile("rank = true"), "rank = true needs capacity_packets"),
        (
            profile("rank = true\ncapacity_packets = 9"),
            "profile \"a\", queue 0: has rank = true, but there is no [rank] with the fields to go by",
        ),
        (
            profile("[rank]\nfield = \"rank\"\nflow = \"flow\""),
            "[rank]: is set, but no queue says rank = true",
        ),
        (
            group("share = 1.0\nburst_bytes = 1"),
            "share = 1 is not above 0 and below 1",
        ),
        (
            group("share = 1e-7\nburst_bytes = 1"),
            "share = 0.0000001 is not above 0",
        ),
        (
            group("share = nan\nburst_bytes = 1"),
            "share = NaN is not above 0",
        ),
        (group("share = 0.5"), "a share needs burst_bytes"),
        (group("burst_bytes = 5"), "burst_bytes without a share"),
        (group("capped = true"), "capped = true without a share"),
        (
            group("share = 0.5\nburst_bytes = 5\nweight = 2"),
            "has a share, so omit weight",
        ),
        (
            group("share = 0.5\nburst_bytes = 5").replace("rate_bps = 1000", ""),
            "a group has a share of the link, but rate_bps has no limit",
        ),
        (
            profile(
                "[[profile.queue]]\nid = 1\n\
                 [[profile.group]]\nqueues = [0]\nshare = 0.5\nburst_bytes = 5\n\
                 [[profile.group]]\nqueues = [1]\nshare = 0.5\nburst_bytes = 5",
            ),
            "the shares of the groups add up to 1;",
        ),
        (
            format!("{export}register = \"\""),
            "[[export]]: register = \"\"; name a register",
        ),
        (
            format!("{export}register = \"r\"\n{export}register = \"r\""),
            "[[export]]: register \"r\" is written by two exports",
        ),
    ];
    for (text, expected) in cases {
        let message = complaint(&text);
        assert!(message.contains(expected), "{message}\nlacks {expected}");
    }
}

#[test]
fn what_is_not_said_is_not_written() {
    let text = serde_json::to_string(&TrafficManagerConfig::like_bmv2(1)).expect("serialisable");
    for key in [
        "pfc",
        "export",
        "ingress_bytes",
        "lossless",
        "rank\"",
        "pipeline_delay_ns",
        "pool_exempt",
        "order",
    ] {
        assert!(!text.contains(key), "{text}");
    }
}

#[test]
fn complaints_name_the_place() {
    let cases = [
        (
            "[ports]\n7 = \"core\"",
            "[ports] 7 = \"core\": no such profile; defined: none",
        ),
        (
            "[[profile]]\nname = \"a\"\n[[profile.queue]]\nid = 0\n[ports]\neth0 = \"a\"",
            "[ports] eth0 = \"a\": the key must be a port number",
        ),
        ("[[profile]]\nname = \"a\"", "profile \"a\": has no queue"),
        (
            "[[profile]]\nname = \"a\"\npipeline_delay_ns = 1000000000000001",
            "profile \"a\": pipeline_delay_ns = 1000000000000001 is above 1000000000000000",
        ),
        (
            "[pfc]\npause_bytes = 1\nresume_bytes = 1\nwatchdog_ns = 9000000000000000000",
            "[pfc]: watchdog_ns = 9000000000000000000 is above",
        ),
        (
            "[[profile]]\nname = \"a\"\n[[profile.queue]]\nid = 32",
            "profile \"a\", queue 32: queue ids are 0",
        ),
        (
            "[[profile]]\nname = \"a\"\n[[profile.queue]]\nid = 1\n[[profile.queue]]\nid = 1",
            "profile \"a\": queue 1 is defined twice",
        ),
        (
            "[[profile]]\nname = \"a\"\n[[profile.queue]]\nid = 1\ncapacity_packets = 0",
            "profile \"a\", queue 1: a capacity of 0",
        ),
        (
            "[[profile]]\nname = \"a\"\n[[profile.queue]]\nid = 1\non_full = \"push-out\"",
            "profile \"a\", queue 1: on_full = \"push-out\" needs packets that can give way",
        ),
        (
            "[[profile]]\nname = \"a\"\npool_bytes = 9\n[[profile.queue]]\nid = 1\npool = true\n\
             on_full = \"push-out\"\npool_exempt = true",
            "profile \"a\", queue 1: pool_exempt = true needs pool = true, on_full = \"push-out\"",
        ),
        (
            "[[profile]]\nname = \"a\"\nrate_bps = 9\n[[profile.queue]]\nid = 1\n\
             [[profile.group]]\nqueues = [1]\norder = \"arrival\"\nshare = 0.5\nburst_bytes = 9",
            "profile \"a\": group of queues [1]: order = \"arrival\" goes without share",
        ),
        (
            "[[profile]]\nname = \"a\"\npool_bytes = 9\n[[profile.queue]]\nid = 1\npool = true\n\
             on_full = \"push-out-deflect\"",
            "profile \"a\", queue 1: on_full = \"push-out-deflect\" needs rank = true",
        ),
        (
            "[[profile]]\nname = \"a\"\n[[profile.queue]]\nid = 1\non_full = \"deflect-either\"",
            "profile \"a\", queue 1: on_full = \"deflect-either\" needs capacity_packets",
        ),
        (
            "[[profile]]\nname = \"a\"\n[[profile.queue]]\nid = 1\npool = true",
            "profile \"a\", queue 1: pool = true, but",
        ),
        (
            "[[profile]]\nname = \"a\"\npool_packets = 3\n[[profile.queue]]\nid = 1",
            "profile \"a\": pool_packets is set, but no queue",
        ),
        (
            "[[profile]]\nname = \"a\"\n[[profile.queue]]\nid = 1\n[[profile.group]]\nqueues = [2]",
            "profile \"a\": a group names queue 2, which is not defined; defined: 1",
        ),
        (
            "[[profile]]\nname = \"a\"\n[[profile.queue]]\nid = 1\n[[profile.queue]]\nid = 2\n\
             [[profile.group]]\nqueues = [2]",
            "profile \"a\": queue 1 is in no group",
        ),
        (
            "[[profile]]\nname = \"a\"\n[[profile.queue]]\nid = 1\n[[profile.group]]\n\
             queues = [1]\nweight = 0",
            "weight 0 would never be served",
        ),
    ];
    for (text, expected) in cases {
        let message = complaint(text);
        assert!(message.contains(expected), "{message}\nlacks {expected}");
    }
}
