//! Where a walk through a document is.

use std::fmt;

/// A chain of steps on the stack of a walk. It costs nothing until something has to be said about the place.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Path<'a> {
    Root,
    Field(&'a Self, &'a str),
    Item(&'a Self, usize),
}

impl Path<'_> {
    pub(crate) const fn is_root(&self) -> bool {
        matches!(self, Self::Root)
    }

    /// Go names a place without positions in lists.
    pub(crate) fn without_positions(&self) -> String {
        match self {
            Self::Root => String::new(),
            Self::Field(parent, name) => match parent.without_positions() {
                outer if outer.is_empty() => (*name).to_owned(),
                outer => format!("{outer}.{name}"),
            },
            Self::Item(parent, _) => parent.without_positions(),
        }
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => Ok(()),
            Self::Field(Path::Root, name) => f.write_str(name),
            Self::Field(parent, name) => write!(f, "{parent}.{name}"),
            Self::Item(parent, index) => write!(f, "{parent}[{index}]"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_spelled_as_kubernetes_spells_it() {
        let spec = Path::Field(&Path::Root, "spec");
        let containers = Path::Field(&spec, "containers");
        let first = Path::Item(&containers, 0);
        let image = Path::Field(&first, "image");
        assert_eq!(image.to_string(), "spec.containers[0].image");
        assert_eq!(image.without_positions(), "spec.containers.image");
    }
}
