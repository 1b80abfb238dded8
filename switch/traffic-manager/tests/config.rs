//! Reading and checking configurations: the example of the documentation, and one test per
//! message.

use ebb_traffic_manager::{DepthUnit, OnFull, TrafficManagerConfig};
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
            "[[profile]]\nname = \"a\"\n[[profile.queue]]\nid = 8",
            "profile \"a\", queue 8: queue ids are 0",
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
