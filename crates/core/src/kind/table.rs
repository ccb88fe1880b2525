//! All kinds that are known.

use jobferry_api::WorkloadKind;
use serde_json::Value;

use super::{Invalid, Kind, Problem};

/// The kinds that every dispatcher knows, each a WorkloadKind as a user would write it.
const BUILT_IN: [&str; 15] = [
    include_str!("../../kinds/job.yaml"),
    include_str!("../../kinds/jobset.yaml"),
    include_str!("../../kinds/trainjob.yaml"),
    include_str!("../../kinds/pytorchjob.yaml"),
    include_str!("../../kinds/tfjob.yaml"),
    include_str!("../../kinds/xgboostjob.yaml"),
    include_str!("../../kinds/paddlejob.yaml"),
    include_str!("../../kinds/jaxjob.yaml"),
    include_str!("../../kinds/mpijob.yaml"),
    include_str!("../../kinds/rayjob.yaml"),
    include_str!("../../kinds/raycluster.yaml"),
    include_str!("../../kinds/rayservice.yaml"),
    include_str!("../../kinds/appwrapper.yaml"),
    include_str!("../../kinds/pipelinerun.yaml"),
    include_str!("../../kinds/taskrun.yaml"),
];

/// Who brought a kind in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// We did.
    BuiltIn,
    /// A user did, by a WorkloadKind.
    User,
}

/// The kinds that are known, built-in ones first.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Table {
    kinds: Vec<(Source, Kind)>,
}

/// A built-in kind is broken: a fault of this build.
#[derive(Debug, thiserror::Error)]
pub enum BrokenTable {
    /// It is not a WorkloadKind.
    #[error("a built-in kind cannot be read: {0}")]
    Unreadable(String),
    /// Its rules make no sense.
    #[error("a built-in kind is wrong: {0}")]
    Invalid(#[from] Invalid),
}

impl Table {
    /// The kinds that every dispatcher knows.
    pub fn built_in() -> Result<Self, BrokenTable> {
        let read = |text: &&str| {
            let kind: WorkloadKind =
                serde_saphyr::from_str(text).map_err(|error| BrokenTable::Unreadable(error.to_string()))?;
            Ok((Source::BuiltIn, Kind::read(&kind.spec)?))
        };
        Ok(Self { kinds: BUILT_IN.iter().map(read).collect::<Result<_, BrokenTable>>()? })
    }

    /// Adds a user's kind, or replaces it.
    pub fn add(&mut self, kind: &WorkloadKind) -> Result<(), Invalid> {
        let read = Kind::read(&kind.spec)?;
        let name = kind.metadata.name.clone().unwrap_or_default();
        let wrong = |field: &str, why: String| Invalid {
            name: name.clone(),
            problems: vec![Problem { field: field.to_owned(), why }],
        };
        if name != read.name() {
            return Err(wrong("metadata.name", format!("it must be {}", read.name())));
        }
        let same = |known: &Kind| known.group == read.group && (known.kind == read.kind || known.plural == read.plural);
        if let Some(known) = self.built_in_kinds().find(|known| same(known)) {
            let why = format!("{} is built in, and its rules cannot be changed", known.name());
            return Err(wrong("spec.kind", why));
        }
        self.remove(&name);
        self.kinds.push((Source::User, read));
        Ok(())
    }

    /// Removes a user's kind.
    pub fn remove(&mut self, name: &str) {
        self.kinds.retain(|(source, kind)| *source == Source::BuiltIn || kind.name() != name);
    }

    fn built_in_kinds(&self) -> impl Iterator<Item = &Kind> {
        self.kinds.iter().filter(|(source, _)| *source == Source::BuiltIn).map(|(_, kind)| kind)
    }

    /// All kinds.
    pub fn iter(&self) -> impl Iterator<Item = (Source, &Kind)> {
        self.kinds.iter().map(|(source, kind)| (*source, kind))
    }

    /// The kind that people call so: `jobsets.jobset.x-k8s.io`, `jobsets` or `JobSet`. Several if they share the word.
    pub fn called(&self, word: &str) -> Vec<(Source, &Kind)> {
        let same =
            |kind: &Kind| [&kind.name(), &kind.plural, &kind.kind].into_iter().any(|it| it.eq_ignore_ascii_case(word));
        self.iter().filter(|(_, kind)| same(kind)).collect()
    }

    /// The kind of this object, by its apiVersion and kind.
    pub fn of(&self, object: &Value) -> Option<(Source, &Kind)> {
        let (api_version, kind) = (object.get("apiVersion")?.as_str()?, object.get("kind")?.as_str()?);
        self.iter().find(|(_, known)| known.api_version() == api_version && known.kind == kind)
    }
}
