//! The parameters file.

use std::path::Path;

use anyhow::{Context, anyhow};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::engine::faults::FaultParams;

/// Section `engine`: how the agent uses the machine. Not a matter of the emulated network, so the
/// dilation leaves it alone.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct EngineParams {
    /// Threads that decode, at most 1024. 0: one less than the machine has processors, at least one.
    pub workers: u32,
    /// How long the engine looks for more to do before it sleeps, and how long before something is
    /// due it stops to sleep. Saves the latency of waking up, and costs a processor that others may
    /// need. At most 1000. (Not `_us`: the dilation would multiply it.)
    pub spin_microseconds: u32,
    /// How long what arrives, or is due, may wait for more, so that one wake-up does for all of it.
    /// Saves processor time where many hosts share a machine, and costs latency. At most 1000.
    pub coalesce_microseconds: u32,
    /// Run before all other processes of the machine (SCHED_FIFO), with priority 1 to 99. 0: like
    /// all others.
    pub realtime_priority: u32,
}

impl EngineParams {
    /// Makes this thread one that meets deadlines.
    pub fn prepare_thread(&self) -> anyhow::Result<()> {
        ebb_packet_io::wake_up_on_time();
        if self.realtime_priority > 0 {
            ebb_packet_io::run_in_real_time(self.realtime_priority as i32).with_context(|| {
                let priority = self.realtime_priority;
                format!(
                    "cannot run with engine.realtime_priority = {priority}; \
                     run as root or with CAP_SYS_NICE, or leave it 0"
                )
            })?;
        }
        Ok(())
    }

    pub fn worker_threads(&self) -> usize {
        match self.workers {
            0 => std::thread::available_parallelism().map_or(1, |cores| (cores.get() - 1).max(1)),
            workers => workers as usize,
        }
    }

    fn validate(&self) -> Result<(), String> {
        for (key, value, most) in [
            ("workers", self.workers, 1024),
            ("spin_microseconds", self.spin_microseconds, 1000),
            ("coalesce_microseconds", self.coalesce_microseconds, 1000),
        ] {
            if value > most {
                return Err(format!(
                    "engine.{key} is {value}; at most {most} make sense"
                ));
            }
        }
        if self.realtime_priority > 99 {
            return Err(format!(
                "engine.realtime_priority is {}; SCHED_FIFO has 1 to 99, and 0 means off",
                self.realtime_priority
            ));
        }
        Ok(())
    }
}

/// All sections; each has defaults for all its keys.
pub type Params = ebb_transport::Params<EngineParams, FaultParams>;

/// Reads JSON, or TOML if the file's extension says so. Without a file: the defaults.
pub fn read(path: Option<&Path>) -> anyhow::Result<Params> {
    let Some(path) = path else {
        return Ok(Params::default());
    };
    let params: Params = read_file(path, "parameters")?;
    let shown = path.display();
    validate(&params).with_context(|| format!("in the parameters file {shown}"))?;
    Ok(params)
}

/// Reads a file of `kind` ("parameters"): JSON, or TOML if its extension says so.
pub fn read_file<T: DeserializeOwned>(path: &Path, kind: &str) -> anyhow::Result<T> {
    let shown = path.display();
    let text = ebb_files::read_text(path)
        .with_context(|| format!("cannot read the {kind} file {shown}"))?;
    let is_toml = path
        .extension()
        .is_some_and(|extension| extension == "toml");
    if is_toml {
        toml::from_str(&text).map_err(|error| anyhow!(error.to_string()))
    } else {
        read_json(&text)
    }
    .with_context(|| format!("in the {kind} file {shown}"))
}

/// Reads JSON; an error names the key in whose value it is.
fn read_json<T: DeserializeOwned>(text: &str) -> anyhow::Result<T> {
    let mut input = serde_json::Deserializer::from_str(text);
    let value = serde_path_to_error::deserialize(&mut input);
    let value = value.map_err(|error| anyhow!(error.to_string()))?;
    input.end().map_err(|error| anyhow!(error.to_string()))?;
    Ok(value)
}

fn validate(params: &Params) -> anyhow::Result<()> {
    let all = params.engine.validate().and(params.faults.validate());
    let all = all.and_then(|()| params.suite().validate());
    all.map_err(anyhow::Error::msg)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ebb_transport::ndp::NdpParams;

    fn read_text(name: &str, text: &str) -> anyhow::Result<Params> {
        let folder = ebb_testkit::Folder::new("params");
        read(Some(&folder.write(name, text)))
    }

    #[test]
    fn sections_and_keys_are_optional() {
        let json = r#"{"nic": {"rate_bps": 20000000}, "ndp": {"rto_ns": 5000000}}"#;
        let params = read_text("a.json", json).unwrap();
        assert_eq!(params.nic.rate_bps, 20_000_000);
        assert_eq!(params.nic.mtu_bytes, 1500);
        assert_eq!(params.ndp.rto_ns, 5_000_000);
        let toml = "[ndp]\nrto_ns = 5_000_000\n";
        assert_eq!(read_text("b.toml", toml).unwrap().ndp.rto_ns, 5_000_000);
        assert_eq!(read_text("c.json", "{}").unwrap().ndp, NdpParams::default());
    }

    #[test]
    fn a_wrong_key_is_named_with_the_right_ones() {
        let error = format!(
            "{:#}",
            read_text("d.json", r#"{"ndp": {"rto_ms": 5}}"#).unwrap_err()
        );
        assert!(
            error.contains("rto_ms") && error.contains("rto_ns"),
            "{error}"
        );
    }

    #[test]
    fn a_wrong_value_is_explained() {
        let error = format!(
            "{:#}",
            read_text("e.json", r#"{"ndp": {"rto_ns": 0}}"#).unwrap_err()
        );
        assert!(error.contains("rto_ns is 0"), "{error}");
        let error = format!(
            "{:#}",
            read_text("f.json", r#"{"ndp": {"rto_ns": -5}}"#).unwrap_err()
        );
        assert!(error.contains("ndp.rto_ns: invalid value"), "{error}");
    }

    #[test]
    fn a_missing_file_is_named() {
        let error = format!(
            "{:#}",
            read(Some(Path::new("/nowhere/p.json"))).unwrap_err()
        );
        assert!(error.contains("/nowhere/p.json"), "{error}");
    }
}
