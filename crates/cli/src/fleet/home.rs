//! Where a fleet keeps what outlives it: one directory, one fleet at a time.
//!
//! ```text
//!   DIR/lock                    held while the fleet runs; says who holds it
//!   DIR/fleet.json              its workers
//!   DIR/kubeconfig              for kubectl, mode 0600
//!   DIR/<cluster>/store.redb    everything that its API server knows
//!   DIR/<cluster>/access.json   its port and credentials, mode 0600
//!   DIR/<cluster>/node/         files and logs of its pods
//! ```

use std::{
    fs::{self, File, OpenOptions},
    io::Write as _,
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, anyhow, bail};

use super::plan::FleetPlan;

/// How the directories of ephemeral fleets begin.
const EPHEMERAL: &str = "jobferry-up-";

/// The directory of a fleet.
#[derive(Debug, Clone)]
pub(crate) struct Home {
    directory: PathBuf,
}

/// Held by the process that runs the fleet; freed with it, however it ends.
#[derive(Debug)]
pub(crate) struct Held {
    _lock: File,
}

impl Home {
    pub(crate) const fn at(directory: PathBuf) -> Self {
        Self { directory }
    }

    /// The user's own: `jobferry` in the data home.
    pub(crate) fn default_directory() -> anyhow::Result<PathBuf> {
        let data = std::env::var_os("XDG_DATA_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
        let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".local/share"));
        let data = data.or_else(home).context("neither XDG_DATA_HOME nor HOME is set; name a directory with --dir")?;
        Ok(data.join("jobferry"))
    }

    /// A directory for a fleet that leaves nothing behind, where [`Home::ephemeral`] finds it.
    pub(crate) fn make_ephemeral() -> anyhow::Result<tempfile::TempDir> {
        scratch(EPHEMERAL)
    }

    /// The ephemeral fleets that run on this machine and belong to this user.
    pub(crate) fn ephemeral() -> Vec<Self> {
        let entries = fs::read_dir(std::env::temp_dir()).into_iter().flatten().flatten();
        let named = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(EPHEMERAL));
        let mut homes: Vec<Self> = named.map(|entry| Self::at(entry.path())).collect();
        homes.retain(|home| home.holder().is_some());
        homes.sort_by(|a, b| a.directory.cmp(&b.directory));
        homes
    }

    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Takes the directory for this process. A second fleet in it would share its store.
    pub(crate) fn hold(&self) -> anyhow::Result<Held> {
        let shown = self.directory.display();
        fs::create_dir_all(&self.directory).with_context(|| format!("directory {shown}"))?;
        let path = self.directory.join("lock");
        let open = OpenOptions::new().create(true).read(true).write(true).truncate(false).mode(0o600).open(&path);
        let mut lock = open.with_context(|| format!("lock file {}", path.display()))?;
        if lock.try_lock().is_err() {
            let holder = self.holder().map_or_else(String::new, |process| format!(" by process {process}"));
            bail!(
                "{shown} is in use{holder}; stop that fleet with `jobferry down --dir {shown}`, or name another --dir"
            );
        }
        lock.set_len(0)?;
        write!(lock, "{}", std::process::id())?;
        Ok(Held { _lock: lock })
    }

    /// The process that runs the fleet, if any does.
    pub(crate) fn holder(&self) -> Option<i32> {
        let lock = File::open(self.directory.join("lock")).ok()?;
        // A shared lock that can be had is given back at once, when the file is closed.
        if lock.try_lock_shared().is_ok() {
            return None;
        }
        fs::read_to_string(self.directory.join("lock")).ok()?.trim().parse().ok()
    }

    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.directory.join("kubeconfig")
    }

    pub(crate) fn cluster(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// The fleet that was here before.
    pub(crate) fn stored_plan(&self) -> anyhow::Result<Option<FleetPlan>> {
        let path = self.directory.join("fleet.json");
        match fs::read(&path) {
            Ok(bytes) => Ok(Some(serde_json::from_slice(&bytes).with_context(|| path.display().to_string())?)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).with_context(|| path.display().to_string()),
        }
    }

    pub(crate) fn store_plan(&self, plan: &FleetPlan) -> anyhow::Result<()> {
        write_privately(&self.directory.join("fleet.json"), &serde_json::to_vec_pretty(plan)?)
    }
}

/// A directory that goes with whoever holds it.
pub(crate) fn scratch(prefix: &str) -> anyhow::Result<tempfile::TempDir> {
    tempfile::Builder::new().prefix(prefix).tempdir().map_err(|error| {
        let place = std::env::temp_dir();
        anyhow!("no directory for the fleet's files can be made in {}: {}; set TMPDIR", place.display(), error.kind())
    })
}

/// Writes a file that only its owner may read, whole or not at all.
pub(crate) fn write_privately(path: &Path, content: &[u8]) -> anyhow::Result<()> {
    let shown = || path.display().to_string();
    let beside = path.with_extension("new");
    let mut file =
        OpenOptions::new().create(true).write(true).truncate(true).mode(0o600).open(&beside).with_context(shown)?;
    file.write_all(content).and_then(|()| file.sync_all()).with_context(shown)?;
    fs::rename(&beside, path).with_context(shown)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn a_directory_is_held_by_one_process_at_a_time_and_free_after_it() {
        let directory = tempfile::tempdir().unwrap();
        let home = Home::at(directory.path().join("fleet"));
        assert_eq!(home.holder(), None);
        let held = home.hold().unwrap();
        assert_eq!(home.holder(), i32::try_from(std::process::id()).ok());
        let error = home.hold().unwrap_err().to_string();
        assert!(error.contains(&format!("in use by process {}", std::process::id())), "{error}");
        drop(held);
        assert_eq!(home.holder(), None);
        home.hold().unwrap();
    }

    #[test]
    fn what_is_written_privately_is_for_its_owner_only() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("kubeconfig");
        fs::write(&path, "old").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        write_privately(&path, b"new").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    }
}
