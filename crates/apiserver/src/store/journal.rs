//! The durable side of the store: one file, one writer, many changes a commit.

use std::path::{Path, PathBuf};
use std::sync::Weak;
use std::sync::mpsc::Receiver;

use bytes::Bytes;
use redb::{Database, ReadableDatabase as _, ReadableTable as _, TableDefinition};
use serde_json::Value;

use super::{ChangeKind, Key, Store, Stored};

/// (table, namespace, name) -> the object as JSON.
const OBJECTS: TableDefinition<'_, (&str, &str, &str), &[u8]> = TableDefinition::new("objects");
const NUMBERS: TableDefinition<'_, &str, u64> = TableDefinition::new("numbers");
/// The last committed resourceVersion, also when its object was deleted: versions never go back.
const VERSION: &str = "resourceVersion";

/// Changes in one commit at most: bounds what a reader of the newest state waits for.
const BATCH: usize = 4096;

/// Why a durable store cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The file cannot be created or read.
    #[error("cannot open {path}: {source}")]
    File {
        /// The file of the store.
        path: PathBuf,
        /// What the operating system said.
        source: std::io::Error,
    },
    /// The file is in use, or is no store, or was damaged.
    #[error("cannot use {path} as the store of a cluster (is another process using it?): {source}")]
    Database {
        /// The file of the store.
        path: PathBuf,
        /// What the database said.
        source: Box<redb::Error>,
    },
}

/// An object as it was found on disk.
pub(crate) struct Kept {
    pub(crate) table: String,
    pub(crate) key: Key,
    pub(crate) version: u64,
    pub(crate) object: Value,
    pub(crate) json: Bytes,
}

/// A change on its way to the disk.
pub(super) struct Entry {
    table: String,
    key: Key,
    version: u64,
    /// `None`: the object is gone.
    json: Option<Bytes>,
}

impl Entry {
    pub(super) fn of(table: &str, kind: ChangeKind, stored: &Stored) -> Self {
        Self {
            table: table.to_owned(),
            key: stored.key.clone(),
            version: stored.version,
            json: (kind != ChangeKind::Deleted).then(|| stored.json.clone()),
        }
    }
}

pub(crate) struct Journal(Database);

impl Journal {
    /// Opens or creates the file; returns what it holds and the version to go on from.
    pub(crate) fn open(path: &Path) -> Result<(Self, Vec<Kept>, u64), StoreError> {
        let file = open_private(path).map_err(|source| StoreError::File { path: path.to_owned(), source })?;
        let unusable = |source: redb::Error| StoreError::Database { path: path.to_owned(), source: Box::new(source) };
        let database = Database::builder().create_file(file).map_err(|error| unusable(error.into()))?;
        let (kept, version) = read(&database).map_err(unusable)?;
        Ok((Self(database), kept, version))
    }

    /// Writes what comes in, in order, as many changes at once as are waiting, and tells the store how far it is.
    pub(super) fn run(self, entries: &Receiver<Entry>, store: &Weak<Store>) {
        while let Ok(first) = entries.recv() {
            let batch: Vec<Entry> = std::iter::once(first).chain(entries.try_iter()).take(BATCH).collect();
            let version = batch.last().map_or(0, |entry| entry.version);
            let result = self.write(&batch, version);
            let Some(store) = store.upgrade() else { continue };
            match result {
                Ok(()) => store.publish(version),
                Err(error) => {
                    tracing::error!(%error, "the store cannot be written to; all further writes are refused");
                    return store.fail();
                }
            }
        }
    }

    fn write(&self, batch: &[Entry], version: u64) -> Result<(), redb::Error> {
        let transaction = self.0.begin_write()?;
        {
            let mut objects = transaction.open_table(OBJECTS)?;
            for Entry { table, key, json, .. } in batch {
                let key = (table.as_str(), key.namespace.as_str(), key.name.as_str());
                match json {
                    Some(json) => drop(objects.insert(key, &json[..])?),
                    None => drop(objects.remove(key)?),
                }
            }
            transaction.open_table(NUMBERS)?.insert(VERSION, version)?;
        }
        transaction.commit()?;
        Ok(())
    }
}

fn read(database: &Database) -> Result<(Vec<Kept>, u64), redb::Error> {
    // Opening for writing creates the tables of a new file.
    let transaction = database.begin_write()?;
    transaction.open_table(OBJECTS)?;
    transaction.open_table(NUMBERS)?;
    transaction.commit()?;
    let transaction = database.begin_read()?;
    let version = transaction.open_table(NUMBERS)?.get(VERSION)?.map_or(0, |version| version.value());
    let mut kept = Vec::new();
    for entry in transaction.open_table(OBJECTS)?.iter()? {
        let (key, json) = entry?;
        let (table, namespace, name) = key.value();
        let json = Bytes::copy_from_slice(json.value());
        let object: Value = serde_json::from_slice(&json).unwrap_or_default();
        let written = object["metadata"]["resourceVersion"].as_str().and_then(|text| text.parse().ok());
        kept.push(Kept {
            table: table.to_owned(),
            key: Key { namespace: namespace.to_owned(), name: name.to_owned() },
            version: written.unwrap_or(version),
            object,
            json,
        });
    }
    Ok((kept, version))
}

fn open_private(path: &Path) -> std::io::Result<std::fs::File> {
    let mut options = std::fs::OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}
