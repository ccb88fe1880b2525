//! Volumes as directories.
//!
//! A process on the host has no root of its own, so nothing can be mounted at an absolute path. A container's working
//! directory stands in for its root: `mountPath: /data` is found at `./data`, a link to the volume's directory. The
//! absolute place is in the environment as well, as `JOBFERRY_VOLUME_<NAME>`.

use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
};

use k8s_openapi::api::core::v1::{Container, DownwardAPIVolumeFile, KeyToPath, Pod, Volume, VolumeProjection};
use kube::Client;

use crate::env::{self, Data, SetupError};

/// Makes the directories of all volumes of a pod; returns them by name.
pub(crate) async fn prepare(
    client: &Client,
    pod: &Pod,
    address: &str,
    base: &Path,
) -> Result<BTreeMap<String, PathBuf>, SetupError> {
    let mut places = BTreeMap::new();
    for volume in pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten()) {
        // Kubernetes itself puts this one into every pod; a process on the host has nobody to show the token to.
        let mut sources = volume.projected.iter().flat_map(|projected| projected.sources.iter().flatten());
        if sources.any(|source| source.service_account_token.is_some()) {
            continue;
        }
        let place = Sources { client, pod, address }.place(volume, base).await?;
        places.insert(volume.name.clone(), place);
    }
    Ok(places)
}

/// Where the content of volumes comes from.
struct Sources<'a> {
    client: &'a Client,
    pod: &'a Pod,
    address: &'a str,
}

impl Sources<'_> {
    async fn place(&self, volume: &Volume, base: &Path) -> Result<PathBuf, SetupError> {
        let directory = base.join(&volume.name);
        if let Some(host) = &volume.host_path {
            return Ok(PathBuf::from(&host.path));
        }
        let files = if let Some(source) = &volume.config_map {
            self.config_map(&source.name, source.items.as_deref(), source.optional).await?
        } else if let Some(source) = &volume.secret {
            let name = source.secret_name.as_deref().unwrap_or_default();
            self.secret(name, source.items.as_deref(), source.optional).await?
        } else if let Some(source) = &volume.downward_api {
            self.fields(source.items.as_deref())?
        } else if let Some(source) = &volume.projected {
            let mut files = Data::new();
            for part in source.sources.iter().flatten() {
                files.extend(self.projected(volume, part).await?);
            }
            files
        } else if volume.empty_dir.is_some() {
            Data::new()
        } else {
            return Err(SetupError::Unsupported(format!("the kind of volume {:?}", volume.name)));
        };
        write(&directory, &files)
            .map_err(|source| SetupError::Files { path: directory.display().to_string(), source })?;
        Ok(directory)
    }

    /// One part of a volume that is put together from several.
    async fn projected(&self, volume: &Volume, part: &VolumeProjection) -> Result<Data, SetupError> {
        if let Some(source) = &part.config_map {
            self.config_map(&source.name, source.items.as_deref(), source.optional).await
        } else if let Some(source) = &part.secret {
            self.secret(&source.name, source.items.as_deref(), source.optional).await
        } else if let Some(source) = &part.downward_api {
            self.fields(source.items.as_deref())
        } else {
            Err(SetupError::Unsupported(format!("a part of volume {:?}", volume.name)))
        }
    }

    async fn config_map(
        &self,
        name: &str,
        items: Option<&[KeyToPath]>,
        optional: Option<bool>,
    ) -> Result<Data, SetupError> {
        let data = env::or_nothing(env::config_map(self.client, self.namespace(), name).await, optional)?;
        chosen(data, items, "ConfigMap", name, optional)
    }

    async fn secret(
        &self,
        name: &str,
        items: Option<&[KeyToPath]>,
        optional: Option<bool>,
    ) -> Result<Data, SetupError> {
        let data = env::or_nothing(env::secret(self.client, self.namespace(), name).await, optional)?;
        chosen(data, items, "Secret", name, optional)
    }

    /// Fields of the pod itself, one a file.
    fn fields(&self, items: Option<&[DownwardAPIVolumeFile]>) -> Result<Data, SetupError> {
        let mut files = Data::new();
        for item in items.unwrap_or_default() {
            let Some(field) = &item.field_ref else {
                return Err(SetupError::Unsupported(format!("the source of file {:?}", item.path)));
            };
            let text = match field.field_path.as_str() {
                "metadata.labels" => lines(self.pod.metadata.labels.as_ref()),
                "metadata.annotations" => lines(self.pod.metadata.annotations.as_ref()),
                path => env::field(self.pod, self.address, path)?,
            };
            files.insert(item.path.clone(), text.into_bytes());
        }
        Ok(files)
    }

    fn namespace(&self) -> &str {
        self.pod.metadata.namespace.as_deref().unwrap_or_default()
    }
}

/// A whole map as a kubelet writes it: a line an entry, its value in quotes.
fn lines(entries: Option<&BTreeMap<String, String>>) -> String {
    let entries: Vec<String> = entries.into_iter().flatten().map(|(key, value)| format!("{key}={value:?}")).collect();
    entries.join("\n")
}

/// The keys that are wanted, under the paths that are wanted.
fn chosen(
    mut data: Data,
    items: Option<&[KeyToPath]>,
    kind: &'static str,
    name: &str,
    optional: Option<bool>,
) -> Result<Data, SetupError> {
    let Some(items) = items.filter(|items| !items.is_empty()) else { return Ok(data) };
    let mut files = Data::new();
    for item in items {
        match data.remove(&item.key) {
            Some(content) => drop(files.insert(item.path.clone(), content)),
            None if optional == Some(true) => {}
            None => return Err(SetupError::NoKey { kind, name: name.to_owned(), key: item.key.clone() }),
        }
    }
    Ok(files)
}

fn write(directory: &Path, files: &Data) -> io::Result<()> {
    std::fs::create_dir_all(directory)?;
    for (path, content) in files {
        let path = directory.join(path);
        path.parent().map_or(Ok(()), std::fs::create_dir_all)?;
        std::fs::write(path, content)?;
    }
    Ok(())
}

/// Links the volumes that a container mounts into its working directory; returns the variables that name them.
pub(crate) fn mount(
    container: &Container,
    places: &BTreeMap<String, PathBuf>,
    root: &Path,
) -> Result<BTreeMap<String, String>, SetupError> {
    let mut variables = BTreeMap::new();
    for mount in container.volume_mounts.iter().flatten() {
        let Some(place) = places.get(&mount.name) else { continue };
        if [Some(&mount.mount_path), mount.sub_path.as_ref()]
            .into_iter()
            .flatten()
            .any(|path| path.split('/').any(|p| p == ".."))
        {
            return Err(SetupError::Unsupported(format!("a path that climbs (volume {:?})", mount.name)));
        }
        let target = mount.sub_path.as_ref().map_or_else(|| place.clone(), |sub| place.join(sub));
        let link = root.join(mount.mount_path.trim_start_matches('/'));
        make_link(&target, &link).map_err(|source| SetupError::Files { path: link.display().to_string(), source })?;
        let name = mount.name.to_uppercase().replace(['-', '.'], "_");
        variables.insert(format!("JOBFERRY_VOLUME_{name}"), target.display().to_string());
    }
    Ok(variables)
}

fn make_link(target: &Path, link: &Path) -> io::Result<()> {
    link.parent().map_or(Ok(()), std::fs::create_dir_all)?;
    match std::os::unix::fs::symlink(target, link) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        other => other,
    }
}
