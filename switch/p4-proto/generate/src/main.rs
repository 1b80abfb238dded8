//! Generates the messages of ebb-p4-proto and the services of ebb-p4runtime from the descriptors beside the former.

use std::error::Error;
use std::fs;
use std::path::Path;

use prost::Message;
use prost_types::FileDescriptorSet;

/// Packages of protobuf, and how ebb-p4-proto calls the module of each.
const PACKAGES: [(&str, &str); 9] = [
    (".bfrt_proto", "bf_runtime"),
    (".ebb.fabric.v1", "fabric"),
    (".ebb.tm.v1", "tm"),
    (".ebb.trace.v1", "trace"),
    (".gnmi", "gnmi"),
    (".gnmi_ext", "gnmi_ext"),
    (".google.rpc", "rpc"),
    (".p4.config.v1", "config"),
    (".p4.v1", "p4"),
];

fn main() -> Result<(), Box<dyn Error>> {
    let ours = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let messages = ours.join("src/generated");
    let services = ours.join("../p4runtime/src/services");
    let descriptors = fs::read(messages.join("descriptors.fds"))?;
    let mut descriptors = FileDescriptorSet::decode(descriptors.as_slice())?;

    let mut with_services = tonic_prost_build::configure()
        // It refuses messages that would take too much memory.
        .codec_path("crate::codec::BoundedCodec")
        .out_dir(services);
    for (package, module) in PACKAGES {
        with_services = with_services.extern_path(package, format!("::ebb_p4_proto::{module}"));
    }
    with_services.compile_fds(descriptors.clone())?;

    descriptors
        .file
        .iter_mut()
        .for_each(|file| file.service.clear());
    prost_build::Config::new()
        .out_dir(messages)
        .include_file("messages.rs")
        // The codec finds the shape of a message by its name.
        .enable_type_names()
        // The order of entries is part of what the compiler writes.
        .btree_map(["."])
        .compile_fds(descriptors)?;
    Ok(())
}
