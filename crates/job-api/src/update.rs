//! Changing the spec of a Job: most of it is frozen once the Job exists.

use k8s_openapi::api::batch::v1::{Job, JobSpec, JobStatus};
use k8s_openapi::api::core::v1::{Affinity, Container, PodTemplateSpec};

use crate::rules::TemplateEdits;
use crate::spec::{self, Leniency};
use crate::{Errors, Rules, conditions, create, metadata, path::Path, quantity::Amount};

const SPEC: Path<'static> = Path::root("spec");

/// Does what the server does to the body of an update before it judges it: the status and what no client may change
/// come from the stored Job, and the generation counts changes of the spec. Both Jobs have their defaults applied.
pub fn prepare(new: &mut Job, old: &Job) {
    new.status.clone_from(&old.status);
    let generation = old.metadata.generation;
    let is_changed = comparable(new.spec.as_ref()) != comparable(old.spec.as_ref());
    new.metadata.generation = if is_changed { Some(generation.unwrap_or(0) + 1) } else { generation };
    metadata::carry_over(&mut new.metadata, &old.metadata);
}

/// What the server would say about replacing the Job `old` by `new`. Both have their defaults applied; `new` went
/// through [`prepare`].
///
/// ```
/// use job_api::{Rules, defaults, update};
/// use k8s_openapi::api::batch::v1::Job;
///
/// let mut old: Job = serde_json::from_str(r#"{
///     "metadata": {"name": "train", "namespace": "ml", "uid": "7a0f", "resourceVersion": "1"},
///     "spec": {"manualSelector": true, "selector": {"matchLabels": {"app": "train"}}, "template": {
///         "metadata": {"labels": {"app": "train"}},
///         "spec": {"containers": [{"name": "main", "image": "app:1"}], "restartPolicy": "Never"}}}
/// }"#)?;
/// defaults::apply(&mut old);
/// let mut new = old.clone();
/// let spec = new.spec.as_mut().unwrap();
/// spec.parallelism = Some(4);
/// spec.managed_by = Some("example.com/queue".to_owned());
/// update::prepare(&mut new, &old);
/// let errors = update::validate(&new, &old, Rules::newest());
/// assert_eq!(errors.to_string(), "spec.managedBy: Invalid value: field is immutable");
/// # Ok::<(), serde_json::Error>(())
/// ```
pub fn validate(new: &Job, old: &Job, rules: Rules) -> Errors {
    let mut errors = Errors::new();
    let leniency = Leniency::towards(old);
    metadata::validate_update_request(&new.metadata, &old.metadata, rules, &mut errors);
    if rules.update_repeats_create_checks {
        create::check(new, leniency, rules, &mut errors);
    }
    metadata::validate_job_update(&new.metadata, &old.metadata, rules, &mut errors);
    let unset = JobSpec::default();
    let (new_spec, old_spec) = (new.spec.as_ref().unwrap_or(&unset), old.spec.as_ref().unwrap_or(&unset));
    if !rules.update_repeats_create_checks {
        create::check_pod_host_names(new, &mut errors);
    }
    spec::validate_job(&SPEC, new_spec, leniency, &mut errors);
    check_completions(new_spec, old_spec, &mut errors);
    check_kept("selector", new_spec.selector == old_spec.selector, &mut errors);
    check_template(new_spec, old_spec, Editable::of(old, rules), &mut errors);
    for (field, is_kept) in [
        ("completionMode", new_spec.completion_mode == old_spec.completion_mode),
        ("podFailurePolicy", new_spec.pod_failure_policy == old_spec.pod_failure_policy),
        ("backoffLimitPerIndex", new_spec.backoff_limit_per_index == old_spec.backoff_limit_per_index),
        ("managedBy", new_spec.managed_by == old_spec.managed_by),
        ("successPolicy", new_spec.success_policy == old_spec.success_policy),
    ] {
        check_kept(field, is_kept, &mut errors);
    }
    if rules.declarative_checks { errors.without_repetitions() } else { errors }
}

fn check_kept(field: &str, is_kept: bool, errors: &mut Errors) {
    if !is_kept {
        errors.invalid(&SPEC.child(field), "field is immutable");
    }
}

/// Completions are frozen, except that an elastic Indexed Job may be scaled: both numbers together.
fn check_completions(new: &JobSpec, old: &JobSpec, errors: &mut Errors) {
    if new.completions == old.completions {
        return;
    }
    if new.completion_mode.as_deref() != Some("Indexed") {
        return check_kept("completions", false, errors);
    }
    // That an Indexed Job has no completions at all is an error of its own already.
    if let Some(completions) = new.completions
        && new.parallelism != Some(completions)
    {
        let detail = "can only be modified in tandem with spec.parallelism";
        errors.invalid_number(&SPEC.child("completions"), completions, detail);
    }
}

/// Which parts of the template may be edited.
#[derive(Clone, Copy)]
struct Editable {
    scheduling: bool,
    resources: bool,
}

impl Editable {
    fn of(stored: &Job, rules: Rules) -> Self {
        let unset = JobStatus::default();
        let status = stored.status.as_ref().unwrap_or(&unset);
        let is_suspended = stored.spec.as_ref().and_then(|spec| spec.suspend) == Some(true);
        let never_started = status.start_time.is_none();
        let is_idle = status.active.unwrap_or(0) == 0;
        let is_marked = conditions::is_true(status.conditions.as_deref().unwrap_or_default(), conditions::SUSPENDED);
        let everything = match rules.template_edits {
            TemplateEdits::NeverStarted => return Self { scheduling: is_suspended && never_started, resources: false },
            TemplateEdits::ConditionSuspended => is_suspended && is_marked && is_idle,
            TemplateEdits::NeverStartedOrConditionSuspended => is_suspended && (never_started || is_marked) && is_idle,
        };
        Self { scheduling: everything, resources: everything }
    }
}

fn check_template(new: &JobSpec, old: &JobSpec, editable: Editable, errors: &mut Errors) {
    let mut expected = old.template.clone();
    if editable.scheduling {
        take_scheduling_directives(&mut expected, &new.template);
    }
    if editable.resources {
        take_resources(&mut expected, &new.template);
        let is_kept = comparable_template(&expected).spec == comparable_template(&new.template).spec;
        check_kept("template.spec", is_kept, errors);
    } else {
        check_kept("template", comparable_template(&expected) == comparable_template(&new.template), errors);
    }
}

fn take_scheduling_directives(expected: &mut PodTemplateSpec, new: &PodTemplateSpec) {
    let no_metadata = k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta::default();
    let new_metadata = new.metadata.as_ref().unwrap_or(&no_metadata);
    let metadata = expected.metadata.get_or_insert_default();
    metadata.labels.clone_from(&new_metadata.labels);
    metadata.annotations.clone_from(&new_metadata.annotations);
    let (Some(spec), Some(new_spec)) = (&mut expected.spec, &new.spec) else { return };
    spec.node_selector.clone_from(&new_spec.node_selector);
    spec.tolerations.clone_from(&new_spec.tolerations);
    spec.scheduling_gates.clone_from(&new_spec.scheduling_gates);
    take_node_affinity(&mut spec.affinity, new_spec.affinity.as_ref());
}

/// Node affinity may change; affinity to other pods may not.
fn take_node_affinity(expected: &mut Option<Affinity>, new: Option<&Affinity>) {
    match (expected.as_mut(), new) {
        (Some(affinity), Some(new)) => affinity.node_affinity.clone_from(&new.node_affinity),
        (Some(affinity), None) => {
            affinity.node_affinity = None;
            expected.take_if(|affinity| *affinity == Affinity::default());
        }
        (None, Some(new)) => {
            *expected = Some(Affinity { node_affinity: new.node_affinity.clone(), ..Affinity::default() });
        }
        (None, None) => {}
    }
}

/// Resources may change where the containers are still the same ones.
fn take_resources(expected: &mut PodTemplateSpec, new: &PodTemplateSpec) {
    fn take(expected: &mut [Container], new: &[Container]) {
        if expected.len() == new.len() {
            for (container, new) in expected.iter_mut().zip(new).filter(|(container, new)| container.name == new.name) {
                container.resources.clone_from(&new.resources);
            }
        }
    }
    let (Some(spec), Some(new_spec)) = (&mut expected.spec, &new.spec) else { return };
    take(&mut spec.containers, &new_spec.containers);
    take(
        spec.init_containers.as_deref_mut().unwrap_or_default(),
        new_spec.init_containers.as_deref().unwrap_or_default(),
    );
}

fn comparable(spec: Option<&JobSpec>) -> JobSpec {
    let mut spec = spec.cloned().unwrap_or_default();
    spec.template = comparable_template(&spec.template);
    spec
}

/// A copy in which equal quantities are written equally.
fn comparable_template(template: &PodTemplateSpec) -> PodTemplateSpec {
    let mut template = template.clone();
    let Some(spec) = &mut template.spec else { return template };
    let containers = spec.containers.iter_mut().chain(spec.init_containers.iter_mut().flatten());
    let lists = containers
        .filter_map(|container| container.resources.as_mut())
        .flat_map(|resources| [&mut resources.limits, &mut resources.requests])
        .flatten()
        .flat_map(|list| list.values_mut());
    let size_limits =
        spec.volumes.iter_mut().flatten().filter_map(|volume| volume.empty_dir.as_mut()?.size_limit.as_mut());
    for quantity in lists.chain(size_limits) {
        if let Some(amount) = Amount::parse(&quantity.0) {
            quantity.0 = amount.nano().to_string();
        }
    }
    template
}
