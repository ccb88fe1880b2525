//! The dependency direction of the workspace, checked on `cargo tree`.
//!
//! A compiler does not see it: in a workspace build features are unified, so a pure crate could lean on `tokio` for
//! months because another crate brings it along. `cargo tree -p CRATE` shows each crate as it stands alone.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};

use crate::workspace;

/// One crate and the crates of this workspace it may reach, directly or through others.
struct Layer {
    name: &'static str,
    may_use: &'static [&'static str],
    /// Pure crates decide; they know no client, no runtime and no network.
    pure: bool,
}

const fn pure(name: &'static str, may_use: &'static [&'static str]) -> Layer {
    Layer { name, may_use, pure: true }
}

const fn shell(name: &'static str, may_use: &'static [&'static str]) -> Layer {
    Layer { name, may_use, pure: false }
}

const LAYERS: [Layer; 9] = [
    pure("job-api", &[]),
    pure("job-controller", &["job-api"]),
    pure("jobferry-core", &["job-api", "jobferry-api"]),
    shell("jobferry-api", &[]),
    shell("jobferry-kubeio", &[]),
    shell("jobferry-dispatcher", &["job-api", "jobferry-api", "jobferry-core", "jobferry-kubeio"]),
    shell("jobferry-cluster", &["job-api", "job-controller", "jobferry-kubeio"]),
    shell("jobferry-node", &["job-api", "jobferry-kubeio"]),
    shell("jobferry-apiserver", &["job-api"]),
];

/// Where everything comes together: these may use whatever they like.
const ASSEMBLIES: [&str; 4] = ["jobferry", "jobferry-sim", "jobferry-testkit", "xtask"];

/// What makes a crate impure. (`kube` alone does not: without its client it is types and derives.)
const IMPURE: [&str; 4] = ["kube-client", "kube-runtime", "tokio", "hyper"];

/// Every breach of the direction as a sentence; empty when all is well.
pub(crate) fn breaches() -> Result<Vec<String>> {
    let members = packages(&["--workspace", "--depth", "0"])?;
    let mut breaches = Vec::new();
    for member in &members {
        if ASSEMBLIES.contains(&member.as_str()) {
            continue;
        }
        match LAYERS.iter().find(|layer| layer.name == member) {
            Some(layer) => breaches.extend(layer.breaches(&packages(&["--package", member])?, &members)),
            None => breaches.push(format!("{member} has no place in xtask/src/layering.rs: add what it may use")),
        }
    }
    Ok(breaches)
}

impl Layer {
    fn breaches(&self, uses: &BTreeSet<String>, members: &BTreeSet<String>) -> Vec<String> {
        let name = self.name;
        let inner = uses.iter().filter(|used| members.contains(*used) && *used != name);
        let wrong_way = inner
            .filter(|used| !self.may_use.contains(&used.as_str()))
            .map(|used| format!("{name} must not depend on {used} (see docs/architecture.md)"));
        let impure = IMPURE.iter().filter(|impure| self.pure && uses.contains(**impure)).map(|impure| {
            format!("{name} is pure and must not depend on {impure}; `cargo tree -e normal -p {name} -i {impure}` shows the way")
        });
        wrong_way.chain(impure).collect()
    }
}

/// The names of all packages in a tree of normal dependencies.
fn packages(selection: &[&str]) -> Result<BTreeSet<String>> {
    let output = workspace::cargo()
        .args(["tree", "--edges", "normal", "--prefix", "none", "--format", "{p}"])
        .args(selection)
        .output()
        .context("running `cargo tree`")?;
    ensure!(output.status.success(), "`cargo tree` failed:\n{}", String::from_utf8_lossy(&output.stderr));
    let tree = String::from_utf8(output.stdout).context("reading `cargo tree`")?;
    Ok(tree.lines().filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn a_crate_may_use_what_its_layer_lists() {
        let core = pure("jobferry-core", &["job-api"]);
        assert!(
            core.breaches(&names(&["jobferry-core", "job-api", "serde"]), &names(&["jobferry-core", "job-api"]))
                .is_empty()
        );
    }

    #[test]
    fn an_upward_dependency_is_a_breach() {
        let kubeio = shell("jobferry-kubeio", &[]);
        let members = names(&["jobferry-kubeio", "jobferry-core"]);
        let breaches = kubeio.breaches(&names(&["jobferry-kubeio", "jobferry-core", "tokio"]), &members);
        assert_eq!(breaches, ["jobferry-kubeio must not depend on jobferry-core (see docs/architecture.md)"]);
    }

    #[test]
    fn only_pure_crates_must_stay_clear_of_runtimes() {
        let uses = names(&["x", "tokio"]);
        assert_eq!(pure("x", &[]).breaches(&uses, &names(&["x"])).len(), 1);
        assert_eq!(shell("x", &[]).breaches(&uses, &names(&["x"])).len(), 0);
    }
}
