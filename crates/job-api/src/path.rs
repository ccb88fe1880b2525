//! Field paths that cost nothing until an error needs their text.

use std::fmt;

/// A path such as `spec.template.spec.containers[0].resources.limits[cpu]`: a link to its parent and one step.
#[derive(Clone, Copy)]
pub(crate) struct Path<'a> {
    parent: Option<&'a Self>,
    step: Step<'a>,
}

#[derive(Clone, Copy)]
enum Step<'a> {
    /// One or more field names, already joined by dots.
    Field(&'a str),
    Index(usize),
    Key(&'a str),
}

impl<'a> Path<'a> {
    pub(crate) const fn root(name: &'a str) -> Self {
        Self { parent: None, step: Step::Field(name) }
    }

    pub(crate) const fn child(&'a self, name: &'a str) -> Self {
        Self { parent: Some(self), step: Step::Field(name) }
    }

    pub(crate) const fn index(&'a self, index: usize) -> Self {
        Self { parent: Some(self), step: Step::Index(index) }
    }

    pub(crate) const fn key(&'a self, key: &'a str) -> Self {
        Self { parent: Some(self), step: Step::Key(key) }
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(parent) = self.parent {
            parent.fmt(f)?;
        }
        match (self.step, self.parent) {
            (Step::Field(name), None) => f.write_str(name),
            (Step::Field(name), Some(_)) => write!(f, ".{name}"),
            (Step::Index(index), _) => write!(f, "[{index}]"),
            (Step::Key(key), _) => write!(f, "[{key}]"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Path;

    #[test]
    fn a_path_reads_as_the_server_writes_it() {
        let spec = Path::root("spec");
        let containers = spec.child("template.spec.containers");
        let first = containers.index(0);
        let limits = first.child("resources.limits");
        assert_eq!(limits.key("cpu").to_string(), "spec.template.spec.containers[0].resources.limits[cpu]");
    }
}
