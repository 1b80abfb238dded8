//! Hashes of Tofino that are set at run time.

use super::error::ControlError;
use crate::dynamic_hash::{Configurable, Dynamic, HashConfig, HashField};
use crate::ids::HashId;
use crate::pipeline::Pipeline;

type Result<T> = std::result::Result<T, ControlError>;

impl Pipeline {
    /// The hash with this name that can be set.
    pub fn hash(&self, name: &str) -> Result<HashId> {
        let place = self.program.hashes.iter().position(|of| of.name == name);
        let place = place.ok_or_else(|| ControlError::not_found("hash", name))?;
        Ok(HashId(place as u32))
    }

    fn hash_of(&self, hash: HashId) -> &Configurable {
        &self.program.hashes[hash.index()]
    }

    /// Inputs of a hash in the order of the program.
    pub fn hash_fields(&self, hash: HashId) -> &[HashField] {
        &self.hash_of(hash).fields
    }

    /// Bits of the result of a hash.
    pub fn hash_bits(&self, hash: HashId) -> u32 {
        self.hash_of(hash).bits
    }

    /// The configuration of a hash.
    pub fn hash_config(&self, hash: HashId) -> HashConfig {
        let set = self.state.hashes.get(hash.index()).and_then(Option::as_ref);
        set.map_or_else(HashConfig::default, |set| set.config.clone())
    }

    /// Sets a hash; the default configuration is that of the program. From the next packet on.
    pub fn set_hash(&mut self, hash: HashId, config: HashConfig) -> Result<()> {
        let dynamic = self.prepared(hash, config)?;
        let is_set = dynamic.config != HashConfig::default();
        let hashes = &mut self.state.hashes;
        hashes.resize_with(self.program.hashes.len(), || None);
        hashes[hash.index()] = is_set.then(|| Box::new(dynamic));
        if hashes.iter().all(Option::is_none) {
            hashes.clear();
        }
        self.state.interprets = !hashes.is_empty() || self.state.trace.is_some();
        Ok(())
    }

    /// The hash of these values, one for each input.
    pub fn compute_hash(&self, hash: HashId, values: &[u128]) -> Result<u64> {
        let of = self.hash_of(hash);
        let calculation = of.calculations.first().copied().unwrap_or(0);
        let algorithm = &self.program.algorithms[calculation as usize];
        let dynamic = self.prepared(hash, self.hash_config(hash))?;
        let otherwise = |bytes: &[u8]| algorithm.compute(bytes, &mut 0);
        Ok(dynamic.compute(of, |field| values.get(field).copied(), otherwise))
    }

    fn prepared(&self, hash: HashId, config: HashConfig) -> Result<Dynamic> {
        let of = self.hash_of(hash);
        let wrong = |problem: String| ControlError::invalid(format!("hash {}", of.name), problem);
        of.prepare(config).map_err(wrong)
    }
}
