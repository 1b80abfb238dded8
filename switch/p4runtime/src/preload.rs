//! P4Info files: a program that forwards from the start, and that controllers find when they come.

use std::path::{Path, PathBuf};

use ebb_p4_proto::DESCRIPTORS;
use prost::Message;
use prost_reflect::{DescriptorPool, DynamicMessage};
use serde::Deserialize;

use crate::proto::config::P4Info;
use crate::proto::p4::ForwardingPipelineConfig;
use crate::proto::p4::forwarding_pipeline_config::Cookie;

/// Reasons why a program to start with cannot be used.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what each is")]
pub enum PreloadError {
    #[error("cannot read {}: {problem}", path.display())]
    File {
        path: PathBuf,
        problem: std::io::Error,
    },
    #[error(
        "{} is no P4Info, neither text (.txtpb, .txt) nor binary (.bin, .pb): {problem}; give the \
         file that --p4runtime-files of ebb-p4c or p4c-bm2-ss wrote",
        path.display()
    )]
    P4Info { path: PathBuf, problem: String },
}

/// A program that all switches of a process start with, as configuration files name it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProgramFiles {
    /// BMv2 JSON.
    pub json: PathBuf,
    /// P4Info, in text or binary format.
    pub p4info: PathBuf,
    /// By which a controller that has the same program knows that it need not send it.
    pub cookie: u64,
}

impl ProgramFiles {
    /// The same files, with paths that are relative to this folder.
    pub fn within(self, folder: &Path) -> Self {
        Self {
            json: folder.join(self.json),
            p4info: folder.join(self.p4info),
            ..self
        }
    }

    /// The config that a controller would send.
    pub fn read(&self) -> Result<ForwardingPipelineConfig, PreloadError> {
        let cookie = Some(Cookie {
            cookie: self.cookie,
        });
        Ok(ForwardingPipelineConfig {
            cookie,
            ..read_config(&self.json, &self.p4info)?
        })
    }
}

/// The config that a controller would send with these two files.
pub fn read_config(json: &Path, p4info: &Path) -> Result<ForwardingPipelineConfig, PreloadError> {
    let read = |path: &Path| {
        ebb_files::read(path).map_err(|problem| PreloadError::File {
            path: path.to_owned(),
            problem,
        })
    };
    let info = parse(p4info, &read(p4info)?).map_err(|problem| PreloadError::P4Info {
        path: p4info.to_owned(),
        problem,
    })?;
    Ok(ForwardingPipelineConfig {
        p4info: Some(info),
        p4_device_config: read(json)?,
        cookie: None,
    })
}

fn parse(path: &Path, bytes: &[u8]) -> Result<P4Info, String> {
    let binary = path.extension().is_some_and(|e| e == "bin" || e == "pb");
    if binary {
        return P4Info::decode(bytes).map_err(|e| e.to_string());
    }
    let text = std::str::from_utf8(bytes).map_err(|e| e.to_string())?;
    let pool = DescriptorPool::decode(DESCRIPTORS).map_err(|e| e.to_string())?;
    let kind = pool.get_message_by_name("p4.config.v1.P4Info");
    let kind = kind.ok_or("the server has no descriptor of it")?;
    let message = DynamicMessage::parse_text_format(kind, text).map_err(|e| e.to_string())?;
    P4Info::decode(message.encode_to_vec().as_slice()).map_err(|e| e.to_string())
}
