//! Checks that several patterns make of their hosts.

use crate::error::Error;
use crate::hosts::{HostId, Hosts};

/// More than any experiment has, in 100 MB: a waiting transfer takes about 100 bytes.
const MOST_OF_A_COUNT: u32 = 1_000_000;

/// The hosts that a pattern chooses from, and the place in the workload that its errors name.
pub struct Scope<'a> {
    pub hosts: &'a Hosts,
    pub place: &'a str,
}

impl Scope<'_> {
    pub fn error(&self, problem: impl Into<String>) -> Error {
        Error::at(self.place, problem)
    }

    /// The hosts of a group; none: all.
    pub fn group(&self, name: &Option<String>) -> Result<Vec<HostId>, Error> {
        self.hosts.group(self.place, name.as_deref())
    }

    pub fn count(&self, key: &str, value: u32) -> Result<usize, Error> {
        check_count(self.place, key, value)?;
        Ok(value as usize)
    }

    /// Every one of `from` needs enough others in `to`.
    pub fn need_others(
        &self,
        from: &[HostId],
        to: &[HostId],
        needed: usize,
        fits: impl Fn(HostId, HostId) -> bool,
    ) -> Result<(), Error> {
        for &host in from {
            let found = to.iter().filter(|&&other| fits(host, other)).count();
            if found < needed {
                let name = &self.hosts.get(host).name;
                return Err(self.error(format!(
                    "{name} has {found} hosts on the other side that it may use, {needed} needed"
                )));
            }
        }
        Ok(())
    }

    /// A group of which each has another in it.
    pub fn members(&self, group: &Option<String>) -> Result<Vec<HostId>, Error> {
        let members = self.group(group)?;
        self.need_others(&members, &members, 1, distinct)?;
        Ok(members)
    }

    /// Clients, each with that many servers besides itself.
    pub fn clients_and_servers(
        &self,
        clients: &Option<String>,
        servers: &Option<String>,
        needed: usize,
    ) -> Result<[Vec<HostId>; 2], Error> {
        let (clients, servers) = (self.group(clients)?, self.group(servers)?);
        self.need_others(&clients, &servers, needed, distinct)?;
        Ok([clients, servers])
    }
}

/// A number of transfers or connections, of which each takes memory.
pub fn check_count(place: &str, key: &str, value: u32) -> Result<(), Error> {
    if !(1..=MOST_OF_A_COUNT).contains(&value) {
        let problem = format!("{key} is {value}, expected 1 to {MOST_OF_A_COUNT}");
        return Err(Error::at(place, problem));
    }
    Ok(())
}

fn distinct(one: HostId, other: HostId) -> bool {
    one != other
}
