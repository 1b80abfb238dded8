//! Generates the gRPC code: P4Runtime from the descriptors that `descriptors.py` writes, the
//! traffic-manager, fabric and trace services from their own `.proto`.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::{env, fs};

use prost::Message;
use prost_types::FileDescriptorSet;

const FDS_VARIABLE: &str = "EBB_P4RUNTIME_FDS";
const OWN_PROTOS: [&str; 3] = [
    "proto/ebb_tm.proto",
    "proto/ebb_fabric.proto",
    "proto/ebb_trace.proto",
];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-env-changed={FDS_VARIABLE}");
    for proto in OWN_PROTOS {
        println!("cargo::rerun-if-changed={proto}");
    }

    let path = descriptors_path()?;
    println!("cargo::rerun-if-changed={}", path.display());
    let mut descriptors = read_descriptors(&path)?;
    descriptors
        .file
        .extend(protox::compile(OWN_PROTOS, ["proto"])?.file);

    // Tests read P4Info as text, which needs descriptors at run time.
    let out = PathBuf::from(env::var("OUT_DIR")?).join("descriptors.fds");
    fs::write(out, descriptors.encode_to_vec())?;

    // The codec finds the shape of a message by its name.
    let mut names = prost_build::Config::new();
    names.enable_type_names();
    tonic_prost_build::configure()
        .include_file("protos.rs")
        .codec_path("crate::codec::BoundedCodec")
        .compile_fds_with_config(descriptors, names)?;
    Ok(())
}

fn descriptors_path() -> Result<PathBuf, Box<dyn Error>> {
    if let Some(path) = env::var_os(FDS_VARIABLE) {
        return Ok(path.into());
    }
    let crate_dir = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?);
    let workspace = crate_dir.ancestors().nth(2).ok_or("no workspace folder")?;
    Ok(workspace.join("build/p4runtime.fds"))
}

fn read_descriptors(path: &Path) -> Result<FileDescriptorSet, Box<dyn Error>> {
    let bytes = fs::read(path).map_err(|error| {
        format!(
            "P4Runtime descriptors {}: {error}; run `make setup`, which writes them \
             (or set {FDS_VARIABLE})",
            path.display()
        )
    })?;
    FileDescriptorSet::decode(bytes.as_slice()).map_err(|error| {
        format!(
            "P4Runtime descriptors {}: {error}; delete the file and run `make setup`",
            path.display()
        )
        .into()
    })
}
