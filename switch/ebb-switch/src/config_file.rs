//! Reading configuration files: TOML from humans, JSON from programs, by extension.

use std::path::{Path, PathBuf};
use std::{fs, io};

use ebb_traffic_manager::TrafficManagerConfig;
use serde::de::DeserializeOwned;
use thiserror::Error;

#[derive(Debug, Error)]
#[error("{path}: {problem}", path = path.display())]
pub struct FileError {
    pub path: PathBuf,
    pub problem: String,
}

impl FileError {
    pub fn new(path: &Path, problem: impl ToString) -> Self {
        Self {
            path: path.to_owned(),
            problem: problem.to_string(),
        }
    }
}

/// Reads a `.toml` or `.json` file.
pub fn read_config<T: DeserializeOwned>(path: &Path) -> Result<T, FileError> {
    let extension = path.extension().and_then(|e| e.to_str());
    let text = match extension {
        Some("json" | "toml") => read(path),
        _ => Ok(String::new()),
    };
    let text = text.map_err(|e| FileError::new(path, format!("cannot be read: {e}")))?;
    match extension {
        Some("json") => serde_json::from_str(&text).map_err(|e| FileError::new(path, e)),
        Some("toml") => toml::from_str(&text).map_err(|e| {
            let start = e.span().map_or(0, |span| span.start);
            let line = 1 + text.bytes().take(start).filter(|b| *b == b'\n').count();
            FileError::new(path, format!("line {line}: {}", e.message()))
        }),
        _ => Err(FileError::new(
            path,
            "the name must end in .toml or .json, which says how to read it",
        )),
    }
}

/// The text of an ordinary file: a device may have no end.
fn read(path: &Path) -> io::Result<String> {
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::other("it is not an ordinary file"));
    }
    fs::read_to_string(path)
}

/// Reads and checks a traffic manager configuration.
pub fn read_traffic_manager_config(path: &Path) -> Result<TrafficManagerConfig, FileError> {
    let config: TrafficManagerConfig = read_config(path)?;
    config.validate().map_err(|e| FileError::new(path, e))?;
    Ok(config)
}
