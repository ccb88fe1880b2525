//! The value of `spec.managedBy` that a controller answers to: its own, and nobody else's.

use anyhow::bail;
use job_api::managed_by;
use jobferry_api::managed_by as ours;

/// Refuses what no Job can bear, and the names of others.
pub(crate) fn check(name: &str, others: &[&str]) -> anyhow::Result<()> {
    if let Err(errors) = managed_by::validate(name).into_result() {
        bail!("--managed-by {name}: {errors}");
    }
    if name == managed_by::RESERVED || others.contains(&name) {
        bail!("--managed-by {name}: another controller answers to this name; choose your own");
    }
    Ok(())
}

/// The same for a dispatcher.
pub(crate) fn check_dispatcher(name: &str) -> anyhow::Result<()> {
    check(name, &[ours::LOCAL, ours::CANARY, ours::MULTIKUEUE])
}

/// One lease a value of managedBy: `job-controller-local.jobferry.dev` for the job-controller of `jobferry.dev/local`.
/// What a name cannot carry is escaped, so that no two values share a lease.
pub(crate) fn lease(controller: &str, managed_by: &str) -> String {
    let (domain, path) = managed_by.split_once('/').unwrap_or((managed_by, ""));
    let mut name = format!("{controller}-");
    for byte in path.bytes() {
        if byte.is_ascii_lowercase() || byte.is_ascii_digit() {
            name.push(char::from(byte));
        } else {
            name.extend(["-", &format!("{byte:02x}")]);
        }
    }
    name + "." + domain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_of_managed_by_has_a_lease_of_its_own() {
        assert_eq!(lease("job-controller", "jobferry.dev/local"), "job-controller-local.jobferry.dev");
        assert_eq!(lease("job-controller", "jobferry.dev/Local.x"), "job-controller--4cocal-2ex.jobferry.dev");
        assert_ne!(lease("dispatcher", "b.c/a"), lease("dispatcher", "c/a.b"));
        assert_ne!(lease("dispatcher", "b.c/a"), lease("job-controller", "b.c/a"));
    }

    #[test]
    fn a_controller_takes_no_name_that_is_no_name_or_somebody_elses() {
        for (name, why) in [
            ("other", "must be a domain-prefixed path"),
            (managed_by::RESERVED, "another controller answers to this name"),
            ("example.com/taken", "another controller answers to this name"),
        ] {
            let refused = check(name, &["example.com/taken"]).unwrap_err().to_string();
            assert!(refused.contains(why), "{refused}");
        }
        check("example.com/own", &["example.com/taken"]).unwrap();
    }
}
