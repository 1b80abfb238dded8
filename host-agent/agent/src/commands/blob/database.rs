//! The database of the locator: a file of redb, in which each change of state is one transaction.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::str::FromStr;

use anyhow::Context;
use ebb_blob::{Change, Snapshot};
use redb::{ReadableTable, TableDefinition};
use serde::Serialize;
use serde::de::DeserializeOwned;

type Table = TableDefinition<'static, &'static str, &'static str>;

const START: Table = Table::new("start");
const SERVERS: Table = Table::new("servers");
const ROWS: Table = Table::new("rows");
const BLOBS: Table = Table::new("blobs");

pub struct Database(redb::Database);

impl Database {
    /// Opens the file, or makes one that only its owner may use. No other locator can have it open.
    pub fn open(path: &Path) -> anyhow::Result<Self> {
        let shown = path.display();
        let mut options = OpenOptions::new();
        options
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600);
        let file = options
            .open(path)
            .with_context(|| format!("cannot open {shown}"))?;
        let database = redb::Builder::new().create_file(file);
        let database = database.with_context(|| {
            format!("cannot use {shown} as a database; does another locator have it open?")
        })?;
        Ok(Database(database))
    }

    pub fn read(&self) -> anyhow::Result<Snapshot> {
        // The tables are made where they are missing.
        self.write(&[])?;
        let starts: BTreeMap<String, u64> = self.entries(START)?;
        Ok(Snapshot {
            start: starts.into_values().next().unwrap_or(0),
            servers: self.entries(SERVERS)?,
            rows: self.entries(ROWS)?,
            blobs: self.entries(BLOBS)?,
        })
    }

    fn entries<K, V>(&self, table: Table) -> anyhow::Result<BTreeMap<K, V>>
    where
        K: FromStr<Err: std::error::Error + Send + Sync + 'static> + Ord,
        V: DeserializeOwned,
    {
        let mut entries = BTreeMap::new();
        for entry in self.0.begin_read()?.open_table(table)?.iter()? {
            let (key, value) = entry?;
            entries.insert(key.value().parse()?, serde_json::from_str(value.value())?);
        }
        Ok(entries)
    }

    /// When this returns, the changes are on the disk, all of them.
    pub fn write(&self, changes: &[Change]) -> anyhow::Result<()> {
        let transaction = self.0.begin_write()?;
        for table in [START, SERVERS, ROWS, BLOBS] {
            transaction.open_table(table)?;
        }
        for change in changes {
            let (table, key, value) = match change {
                Change::Start(start) => (START, String::new(), json(start)?),
                Change::Server(address, record) => (SERVERS, address.to_string(), json(record)?),
                Change::Row(number, row) => (ROWS, number.to_string(), json(row)?),
                Change::Blob(name, blob) => (BLOBS, name.clone(), json(blob)?),
            };
            let mut table = transaction.open_table(table)?;
            table.insert(key.as_str(), value.as_str())?;
        }
        transaction.commit()?;
        Ok(())
    }
}

fn json(value: &impl Serialize) -> anyhow::Result<String> {
    Ok(serde_json::to_string(value)?)
}
