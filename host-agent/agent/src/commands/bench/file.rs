//! A workload and its hosts, from files.

use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use ebb_workload::{Format, HostList, Schedule, Workload};

#[derive(Args, Debug)]
pub struct WorkloadFile {
    /// File with `[[host]]`: name, address, rack, pod; by default those in the workload
    #[arg(long, value_name = "FILE")]
    pub hosts: Option<PathBuf>,
    /// Instead of the workload's seed
    #[arg(long)]
    pub seed: Option<u64>,
    /// Instead of the workload's duration: nothing arrives at this time or later
    #[arg(long, value_name = "NS")]
    pub duration_ns: Option<u64>,
}

impl WorkloadFile {
    /// The workload as it is to be run, and its transfers.
    pub fn open(&self, workload: &Path) -> anyhow::Result<(Workload, Schedule)> {
        let (text, format) = read(workload)?;
        let folder = workload.parent().unwrap_or(Path::new(""));
        let sizes =
            |name: &str| ebb_files::read_text(&folder.join(name)).map_err(|e| e.to_string());
        let shown = workload.display();
        let mut workload =
            Workload::parse(&text, format, sizes).with_context(|| format!("workload {shown}"))?;
        if let Some(path) = &self.hosts {
            let (text, format) = read(path)?;
            let list = HostList::parse(&text, format);
            workload.hosts = list
                .with_context(|| format!("hosts {}", path.display()))?
                .hosts;
        }
        workload.seed = self.seed.unwrap_or(workload.seed);
        workload.duration_ns = self.duration_ns.or(workload.duration_ns);
        let schedule = workload
            .schedule()
            .with_context(|| format!("workload {shown}"))?;
        Ok((workload, schedule))
    }
}

fn read(path: &Path) -> anyhow::Result<(String, Format)> {
    let shown = path.display();
    let format = Format::of(&path.to_string_lossy())?;
    let text = ebb_files::read_text(path).with_context(|| format!("cannot read {shown}"))?;
    Ok((text, format))
}
