//! kube's own client against the server, without sockets, in virtual time.

// Helpers of tests may fail like tests do.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::time::Duration;

use futures::{StreamExt, TryStreamExt};
use jobferry_apiserver::{ApiServer, Options};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod};
use k8s_openapi::jiff::Timestamp;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, PropagationPolicy, WatchEvent, WatchParams};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};

fn server() -> ApiServer {
    ApiServer::new(Options::new(|| "2026-11-15T12:00:00Z".parse::<Timestamp>().unwrap(), 7))
}

fn client(server: &ApiServer) -> Client {
    Client::new(server.service(), "default")
}

fn job(name: &str) -> Job {
    serde_json::from_value(json!({
        "metadata": {"name": name, "labels": {"app": "test"}},
        "spec": {"managedBy": "jobferry.dev/dispatcher", "template": {"spec": {
            "restartPolicy": "Never", "containers": [{"name": "main", "image": "app:1"}]}}}
    }))
    .unwrap()
}

fn config(name: &str, value: &str) -> ConfigMap {
    serde_json::from_value(json!({"metadata": {"name": name, "labels": {"colour": value}}, "data": {"key": value}}))
        .unwrap()
}

fn code(error: kube::Error) -> (u16, String) {
    match error {
        kube::Error::Api(status) => (status.code, status.reason),
        other => panic!("not an answer of the server: {other}"),
    }
}

/// Reads `count` events of a watch as (type, name, resourceVersion).
async fn events(
    api: &Api<ConfigMap>,
    params: &WatchParams,
    from: &str,
    count: usize,
) -> Vec<(&'static str, String, String)> {
    let stream = api.watch(params, from).await.unwrap().take(count);
    let read = |event: WatchEvent<ConfigMap>| match event {
        WatchEvent::Added(object) => ("ADDED", object.name_any(), object.resource_version().unwrap()),
        WatchEvent::Modified(object) => ("MODIFIED", object.name_any(), object.resource_version().unwrap()),
        WatchEvent::Deleted(object) => ("DELETED", object.name_any(), object.resource_version().unwrap()),
        WatchEvent::Bookmark(mark) => ("BOOKMARK", String::new(), mark.metadata.resource_version),
        WatchEvent::Error(status) => ("ERROR", status.reason, status.code.to_string()),
    };
    stream.map_ok(read).try_collect().await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_new_job_is_defaulted_prepared_and_given_an_identity() {
    let server = server();
    let jobs: Api<Job> = Api::default_namespaced(client(&server));
    let created = jobs.create(&PostParams::default(), &job("train")).await.unwrap();
    assert_eq!(created.metadata.generation, Some(1));
    assert_eq!(created.metadata.creation_timestamp.as_ref().unwrap().0.to_string(), "2026-11-15T12:00:00Z");
    let uid = created.uid().unwrap();
    let spec = created.spec.as_ref().unwrap();
    assert_eq!((spec.completions, spec.parallelism, spec.backoff_limit), (Some(1), Some(1), Some(6)));
    let selector = spec.selector.as_ref().unwrap().match_labels.as_ref().unwrap();
    assert_eq!(selector["batch.kubernetes.io/controller-uid"], uid);
    assert_eq!(jobs.get("train").await.unwrap(), created);
    let again = jobs.create(&PostParams::default(), &job("train")).await.unwrap_err();
    assert_eq!(code(again), (409, "AlreadyExists".into()));
}

#[tokio::test(start_paused = true)]
async fn the_same_seed_gives_the_same_objects() {
    let (one, two) = (server(), server());
    let mut seen = Vec::new();
    for server in [&one, &two] {
        let api: Api<ConfigMap> = Api::default_namespaced(client(server));
        let mut object = config("", "red");
        object.metadata.name = None;
        object.metadata.generate_name = Some("settings-".into());
        let created = api.create(&PostParams::default(), &object).await.unwrap();
        let system: Api<Namespace> = Api::all(client(server));
        seen.push((created.name_any(), created.uid(), system.get("kube-system").await.unwrap().uid()));
    }
    assert_eq!(seen[0], seen[1]);
    assert!(seen[0].0.starts_with("settings-") && seen[0].0.len() == "settings-".len() + 5);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_created_in_a_namespace_that_is_not_there() {
    let server = server();
    let api: Api<ConfigMap> = Api::namespaced(client(&server), "nowhere");
    let error = api.create(&PostParams::default(), &config("a", "red")).await.unwrap_err();
    let kube::Error::Api(status) = error else { panic!() };
    assert_eq!((status.code, status.message.as_str()), (404, r#"namespaces "nowhere" not found"#));
}

#[tokio::test(start_paused = true)]
async fn a_watch_resumes_strictly_after_the_version_it_names() {
    let server = server();
    let api: Api<ConfigMap> = Api::default_namespaced(client(&server));
    let a = api.create(&PostParams::default(), &config("a", "red")).await.unwrap();
    let b = api.create(&PostParams::default(), &config("b", "red")).await.unwrap();
    api.patch("a", &PatchParams::default(), &Patch::Merge(json!({"data": {"key": "new"}}))).await.unwrap();
    api.delete("b", &DeleteParams::default()).await.unwrap();
    let from_a = events(&api, &WatchParams::default(), &a.resource_version().unwrap(), 3).await;
    let expected =
        [("ADDED", "b", b.resource_version().unwrap()), ("MODIFIED", "a", "5".into()), ("DELETED", "b", "6".into())];
    assert_eq!(from_a, expected.map(|(kind, name, version)| (kind, name.to_owned(), version)));
    let now = events(&api, &WatchParams::default(), "0", 1).await;
    assert_eq!(now, [("ADDED", "a".to_owned(), "5".to_owned())], "without a version the present comes first");
}

#[tokio::test(start_paused = true)]
async fn a_version_out_of_history_is_an_error_event_not_a_status() {
    let options = Options { history: 2, ..Options::new(|| Timestamp::UNIX_EPOCH, 1) };
    let server = ApiServer::new(options);
    let api: Api<ConfigMap> = Api::default_namespaced(client(&server));
    for value in ["1", "2", "3", "4"] {
        let patch = Patch::Merge(json!({"data": {"key": value}}));
        if value == "1" {
            api.create(&PostParams::default(), &config("a", value)).await.unwrap();
        } else {
            api.patch("a", &PatchParams::default(), &patch).await.unwrap();
        }
    }
    assert_eq!(events(&api, &WatchParams::default(), "1", 9).await, [("ERROR", "Expired".into(), "410".into())]);
    assert_eq!(events(&api, &WatchParams::default(), "4", 2).await.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_quiet_watch_gets_bookmarks_and_ends_at_its_timeout() {
    let server = server();
    let api: Api<ConfigMap> = Api::default_namespaced(client(&server));
    let namespaces: Api<Namespace> = Api::all(client(&server));
    let params = WatchParams::default().timeout(150);
    let started = tokio::time::Instant::now();
    let watch = events(&api, &params, "2", 9);
    let other = async {
        tokio::time::sleep(Duration::from_secs(70)).await;
        let namespace: Namespace = serde_json::from_value(json!({"metadata": {"name": "other"}})).unwrap();
        namespaces.create(&PostParams::default(), &namespace).await.unwrap();
    };
    let (seen, ()) = tokio::join!(watch, other);
    let bookmark = |version: &str| ("BOOKMARK", String::new(), version.to_owned());
    let told = "the second tells that other resources moved on, the last comes right before the end";
    assert_eq!(seen, [bookmark("2"), bookmark("3"), bookmark("3")], "{told}");
    assert_eq!(started.elapsed().as_secs(), 150);
}

#[tokio::test(start_paused = true)]
async fn a_streaming_list_ends_with_its_bookmark() {
    let server = server();
    let api: Api<ConfigMap> = Api::default_namespaced(client(&server));
    for name in ["a", "b"] {
        api.create(&PostParams::default(), &config(name, "red")).await.unwrap();
    }
    let params = WatchParams::default().initial_events();
    let seen = events(&api, &params, "0", 3).await;
    assert_eq!(seen.iter().map(|event| event.0).collect::<Vec<_>>(), ["ADDED", "ADDED", "BOOKMARK"]);
    assert_eq!(seen[2].2, "4");
}

#[tokio::test(start_paused = true)]
async fn objects_enter_and_leave_a_selection() {
    let server = server();
    let api: Api<ConfigMap> = Api::default_namespaced(client(&server));
    api.create(&PostParams::default(), &config("a", "blue")).await.unwrap();
    for colour in ["red", "red2", "red"] {
        let label = if colour == "red2" { "blue" } else { "red" };
        let patch = Patch::Merge(json!({"metadata": {"labels": {"colour": label}}}));
        api.patch("a", &PatchParams::default(), &patch).await.unwrap();
    }
    api.delete("a", &DeleteParams::default()).await.unwrap();
    let params = WatchParams::default().labels("colour=red");
    let seen = events(&api, &params, "2", 4).await;
    let kinds: Vec<_> = seen.iter().map(|(kind, _, version)| (*kind, version.as_str())).collect();
    assert_eq!(kinds, [("ADDED", "4"), ("DELETED", "5"), ("ADDED", "6"), ("DELETED", "7")]);
}

#[tokio::test(start_paused = true)]
async fn status_is_patched_with_uid_and_version_and_brings_labels_along() {
    let server = server();
    let jobs: Api<Job> = Api::default_namespaced(client(&server));
    let created = jobs.create(&PostParams::default(), &job("train")).await.unwrap();
    let placed = |status: &str| json!({"type": "jobferry.dev/Placed", "status": status, "lastProbeTime": null, "lastTransitionTime": "2026-11-15T12:00:00Z"});
    let patch = |version: &str, conditions: Value| {
        Patch::Strategic(json!({
            "metadata": {"uid": created.uid(), "resourceVersion": version, "labels": {"jobferry.dev/worker": "eu-1"}},
            "spec": {"parallelism": 9},
            "status": {"active": 1, "startTime": "2026-11-15T12:00:00Z", "conditions": conditions}
        }))
    };
    let params = PatchParams::default();
    let first = created.resource_version().unwrap();
    let written = jobs.patch_status("train", &params, &patch(&first, json!([placed("True")]))).await.unwrap();
    assert_eq!(written.labels()["jobferry.dev/worker"], "eu-1");
    assert_eq!(written.spec.as_ref().unwrap().parallelism, Some(1), "the spec is not for /status to change");
    let suspended = json!([{"type": "Suspended", "status": "True"}]);
    let next = written.resource_version().unwrap();
    let merged = jobs.patch_status("train", &params, &patch(&next, suspended.clone())).await.unwrap();
    let types: Vec<String> =
        merged.status.unwrap().conditions.unwrap().into_iter().map(|condition| condition.type_).collect();
    assert_eq!(types, ["Suspended", "jobferry.dev/Placed"], "conditions merge by type, new ones first");
    let stale = jobs.patch_status("train", &params, &patch(&first, suspended)).await.unwrap_err();
    assert_eq!(code(stale), (409, "Conflict".into()));
}

#[tokio::test(start_paused = true)]
async fn an_illegal_status_is_refused_with_its_causes() {
    let server = server();
    let jobs: Api<Job> = Api::default_namespaced(client(&server));
    jobs.create(&PostParams::default(), &job("train")).await.unwrap();
    let patch = Patch::Merge(json!({"status": {"conditions": [{"type": "Complete", "status": "True"}]}}));
    let kube::Error::Api(status) = jobs.patch_status("train", &PatchParams::default(), &patch).await.unwrap_err()
    else {
        panic!()
    };
    assert_eq!((status.code, status.reason.as_str()), (422, "Invalid"));
    let fields: Vec<String> = status.details.unwrap().causes.into_iter().map(|cause| cause.field).collect();
    assert_eq!(fields, ["status.completionTime", "status.conditions", "status.startTime"]);
}

#[tokio::test(start_paused = true)]
async fn a_wrong_uid_is_a_conflict_for_put_and_invalid_for_patch() {
    let server = server();
    let api: Api<ConfigMap> = Api::default_namespaced(client(&server));
    let mut object = api.create(&PostParams::default(), &config("a", "red")).await.unwrap();
    let patch = Patch::Merge(json!({"metadata": {"uid": "somebody-else"}}));
    assert_eq!(code(api.patch("a", &PatchParams::default(), &patch).await.unwrap_err()).0, 422);
    object.metadata.uid = Some("somebody-else".into());
    assert_eq!(code(api.replace("a", &PostParams::default(), &object).await.unwrap_err()).0, 409);
    let preconditions = kube::api::Preconditions { uid: Some("somebody-else".into()), resource_version: None };
    let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
    assert_eq!(code(api.delete("a", &params).await.unwrap_err()), (409, "Conflict".into()));
}

#[tokio::test(start_paused = true)]
async fn a_write_that_changes_nothing_makes_no_new_version() {
    let server = server();
    let api: Api<ConfigMap> = Api::default_namespaced(client(&server));
    let first = api.create(&PostParams::default(), &config("a", "red")).await.unwrap();
    let patch = Patch::Merge(json!({"data": {"key": "red"}}));
    let second = api.patch("a", &PatchParams::default(), &patch).await.unwrap();
    assert_eq!(first, second);
}

#[tokio::test(start_paused = true)]
async fn generation_counts_changes_of_the_spec_only() {
    let server = server();
    let jobs: Api<Job> = Api::default_namespaced(client(&server));
    jobs.create(&PostParams::default(), &job("train")).await.unwrap();
    for (patch, expected) in [
        (json!({"metadata": {"labels": {"x": "y"}}}), 1),
        (json!({"spec": {"suspend": true}}), 2),
        (json!({"spec": {"suspend": true}}), 2),
    ] {
        let patched = jobs.patch("train", &PatchParams::default(), &Patch::Merge(patch.clone())).await.unwrap();
        assert_eq!(patched.metadata.generation, Some(expected), "{patch}");
    }
    let frozen = Patch::Merge(json!({"spec": {"managedBy": "example.com/other"}}));
    assert_eq!(code(jobs.patch("train", &PatchParams::default(), &frozen).await.unwrap_err()).0, 422);
}

#[tokio::test(start_paused = true)]
async fn finalizers_and_propagation_hold_an_object_until_they_are_gone() {
    let server = server();
    let jobs: Api<Job> = Api::default_namespaced(client(&server));
    let cases = [
        (Some(PropagationPolicy::Foreground), Some("foregroundDeletion")),
        (Some(PropagationPolicy::Orphan), Some("orphan")),
        (Some(PropagationPolicy::Background), None),
        (None, Some("orphan")),
    ];
    for (policy, finalizer) in cases {
        jobs.create(&PostParams::default(), &job("train")).await.unwrap();
        let params = DeleteParams { propagation_policy: policy, ..DeleteParams::default() };
        let answer = jobs.delete("train", &params).await.unwrap();
        let Some(finalizer) = finalizer else {
            assert!(answer.right().is_some_and(|status| status.is_success()));
            assert!(jobs.get_opt("train").await.unwrap().is_none());
            continue;
        };
        let waiting = jobs.get("train").await.unwrap();
        assert_eq!(waiting.finalizers(), [finalizer]);
        assert!(waiting.metadata.deletion_timestamp.is_some());
        let more = Patch::Merge(json!({"metadata": {"finalizers": [finalizer, "example.com/more"]}}));
        assert_eq!(code(jobs.patch("train", &PatchParams::default(), &more).await.unwrap_err()).0, 422);
        let done = Patch::Merge(json!({"metadata": {"finalizers": null}}));
        jobs.patch("train", &PatchParams::default(), &done).await.unwrap();
        assert!(jobs.get_opt("train").await.unwrap().is_none(), "{finalizer}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_bound_pod_ends_with_grace_and_an_unbound_one_at_once() {
    let server = server();
    let pods: Api<Pod> = Api::default_namespaced(client(&server));
    let pod: Pod = serde_json::from_value(
        json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}),
    )
    .unwrap();
    let created = pods.create(&PostParams::default(), &pod).await.unwrap();
    assert_eq!(created.status.unwrap().phase.as_deref(), Some("Pending"));
    pods.delete("p", &DeleteParams::default()).await.unwrap();
    assert!(pods.get_opt("p").await.unwrap().is_none());

    pods.create(&PostParams::default(), &pod).await.unwrap();
    let binding = json!({"target": {"kind": "Node", "name": "n1"}});
    let bind = async || pods.create_subresource::<Value, Value>("binding", "p", &PostParams::default(), &binding).await;
    bind().await.unwrap();
    assert_eq!(code(bind().await.unwrap_err()).0, 409, "a pod is bound once");
    pods.delete("p", &DeleteParams::default()).await.unwrap();
    let ending = pods.get("p").await.unwrap();
    assert_eq!(ending.metadata.deletion_grace_period_seconds, Some(30));
    assert_eq!(ending.metadata.deletion_timestamp.unwrap().0.to_string(), "2026-11-15T12:00:30Z");
    assert_eq!(ending.spec.unwrap().node_name.as_deref(), Some("n1"));
    pods.delete("p", &DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() }).await.unwrap();
    assert!(pods.get_opt("p").await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_namespace_goes_when_its_controller_says_so() {
    let server = server();
    let namespaces: Api<Namespace> = Api::all(client(&server));
    let namespace: Namespace = serde_json::from_value(json!({"metadata": {"name": "team"}})).unwrap();
    let created = namespaces.create(&PostParams::default(), &namespace).await.unwrap();
    assert_eq!(created.labels()["kubernetes.io/metadata.name"], "team");
    namespaces.delete("team", &DeleteParams::default()).await.unwrap();
    let mut ending = namespaces.get("team").await.unwrap();
    assert_eq!(ending.status.as_ref().unwrap().phase.as_deref(), Some("Terminating"));
    let inside: Api<ConfigMap> = Api::namespaced(client(&server), "team");
    assert_eq!(code(inside.create(&PostParams::default(), &config("a", "red")).await.unwrap_err()).0, 403);
    ending.spec = None;
    namespaces.replace_subresource("finalize", "team", &PostParams::default(), &ending).await.unwrap();
    assert!(namespaces.get_opt("team").await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn long_lists_come_in_pages_of_one_moment() {
    let server = server();
    let api: Api<ConfigMap> = Api::default_namespaced(client(&server));
    for name in ["a", "b", "c", "d", "e"] {
        api.create(&PostParams::default(), &config(name, "red")).await.unwrap();
    }
    let first = api.list(&ListParams::default().limit(2)).await.unwrap();
    assert_eq!((first.items.len(), first.metadata.remaining_item_count), (2, Some(3)));
    api.delete("c", &DeleteParams::default()).await.unwrap();
    let token = first.metadata.continue_.unwrap();
    let second = api.list(&ListParams::default().limit(9).continue_token(&token)).await.unwrap();
    let names: Vec<String> = second.items.iter().map(ResourceExt::name_any).collect();
    assert_eq!(names, ["c", "d", "e"], "the second page belongs to the same moment as the first");
    assert_eq!(second.metadata.resource_version, first.metadata.resource_version);
    let forged = api.list(&ListParams::default().continue_token("rubbish")).await.unwrap_err();
    assert_eq!(code(forged).0, 400);
}

#[tokio::test(start_paused = true)]
async fn kubes_own_watcher_follows_through_deletes() {
    use kube::runtime::watcher::{self, Event};
    let server = server();
    let api: Api<ConfigMap> = Api::default_namespaced(client(&server));
    api.create(&PostParams::default(), &config("a", "red")).await.unwrap();
    for config in [watcher::Config::default(), watcher::Config::default().streaming_lists()] {
        let stream = kube::runtime::watcher(api.clone(), config);
        let mut stream = std::pin::pin!(stream);
        let mut seen = Vec::new();
        while let Some(event) = stream.next().await {
            seen.push(match event.unwrap() {
                Event::Init => "init",
                Event::InitApply(_) => "object",
                Event::InitDone => {
                    self::config_round(&api).await;
                    "done"
                }
                Event::Apply(_) => "apply",
                Event::Delete(_) => break,
            });
        }
        assert_eq!(seen, ["init", "object", "done", "apply"]);
    }
}

/// Adds an object and takes it away again.
async fn config_round(api: &Api<ConfigMap>) {
    api.create(&PostParams::default(), &config("b", "red")).await.unwrap();
    api.delete("b", &DeleteParams::default()).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn kubes_controller_and_reflector_work_unchanged() {
    use kube::runtime::controller::{Action, Controller};
    use kube::runtime::{reflector, watcher};
    use std::sync::Arc;

    let server = server();
    let jobs: Api<Job> = Api::default_namespaced(client(&server));
    let (reader, writer) = reflector::store();
    let reflected = reflector::reflector(writer, watcher(jobs.clone(), watcher::Config::default()));
    let reflecting = tokio::spawn(reflected.for_each(async |_| ()));
    let reconciled = Arc::new(tokio::sync::Notify::new());
    let context = (jobs.clone(), Arc::clone(&reconciled));
    let controller = Controller::new(jobs.clone(), watcher::Config::default());
    let running = controller.run(
        async |job: Arc<Job>, context: Arc<(Api<Job>, Arc<tokio::sync::Notify>)>| {
            let patch = Patch::Merge(json!({"metadata": {"labels": {"seen": "yes"}}}));
            context.0.patch(&job.name_any(), &PatchParams::default(), &patch).await?;
            context.1.notify_one();
            Ok::<_, kube::Error>(Action::await_change())
        },
        |_, _, _| Action::await_change(),
        Arc::new(context),
    );
    let controlling = tokio::spawn(running.for_each(async |_| ()));
    jobs.create(&PostParams::default(), &job("train")).await.unwrap();
    reconciled.notified().await;
    reader.wait_until_ready().await.unwrap();
    tokio::time::timeout(Duration::from_secs(60), async {
        while !reader.state().iter().any(|job| job.labels().get("seen").is_some_and(|seen| seen == "yes")) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await
    .unwrap();
    controlling.abort();
    reflecting.abort();
}

#[tokio::test(start_paused = true)]
async fn logs_come_from_whoever_keeps_them() {
    use jobferry_apiserver::{LogRequest, LogStream, PodLogs};
    use std::pin::Pin;
    use std::sync::Arc;

    struct Echo;
    impl PodLogs for Echo {
        fn open(&self, request: LogRequest) -> Pin<Box<dyn Future<Output = Result<LogStream, String>> + Send + '_>> {
            let text = format!("{} of {}, {:?} lines\n", request.container, request.pod, request.tail_lines);
            let stream: LogStream = Box::pin(futures::stream::iter([text.into()]));
            Box::pin(async { Ok(stream) })
        }
    }

    let server = server();
    let pods: Api<Pod> = Api::default_namespaced(client(&server));
    let pod: Pod = serde_json::from_value(
        json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}),
    )
    .unwrap();
    pods.create(&PostParams::default(), &pod).await.unwrap();
    let params = kube::api::LogParams { tail_lines: Some(3), ..kube::api::LogParams::default() };
    assert_eq!(code(pods.logs("p", &params).await.unwrap_err()).0, 501, "nobody keeps logs yet");
    server.set_pod_logs(Arc::new(Echo));
    assert_eq!(pods.logs("p", &params).await.unwrap(), "c of p, Some(3) lines\n");
    let other = kube::api::LogParams { container: Some("x".into()), ..kube::api::LogParams::default() };
    assert_eq!(code(pods.logs("p", &other).await.unwrap_err()).0, 400);
    assert_eq!(code(pods.logs("none", &params).await.unwrap_err()).0, 404);
}

#[tokio::test(start_paused = true)]
async fn whether_cel_rules_are_evaluated_is_no_secret() {
    let server = server();
    let definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "boats.example.com"}, "spec": {"group": "example.com", "scope": "Cluster",
        "names": {"plural": "boats", "kind": "Boat"}, "versions": [{"name": "v1", "served": true, "storage": true,
        "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-validations": [{"rule": "self.spec.crew > 0"}],
        "properties": {"spec": {"type": "object", "properties": {"crew": {"type": "integer"}}}}}}}]}});
    let boat = json!({"apiVersion": "example.com/v1", "kind": "Boat", "metadata": {"name": "a"}, "spec": {"crew": 0}});
    let post = |path: &str, body: &Value| http::Request::post(path).body(body.to_string().into_bytes().into()).unwrap();
    let client = client(&server);
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let defined = client.send(post(path, &definition)).await.unwrap();
    assert_eq!(defined.status().as_u16(), 201);
    let created = client.send(post("/apis/example.com/v1/boats", &boat)).await.unwrap();
    if cfg!(feature = "cel") {
        assert_eq!(created.status().as_u16(), 422);
        assert!(defined.headers().get("warning").is_none());
    } else {
        assert_eq!(created.status().as_u16(), 201);
        assert!(defined.headers()["warning"].to_str().unwrap().contains("does not evaluate them"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_cluster_can_be_turned_back_like_one_restored_from_a_backup() {
    let server = server();
    let api: Api<ConfigMap> = Api::default_namespaced(client(&server));
    let kept = api.create(&PostParams::default(), &config("kept", "red")).await.unwrap();
    let snapshot = server.snapshot();
    let version = server.resource_version();
    let lost = api.create(&PostParams::default(), &config("lost", "red")).await.unwrap();
    api.delete("kept", &DeleteParams::default()).await.unwrap();
    let watch = api.watch(&WatchParams::default().timeout(200), &server.resource_version().to_string()).await.unwrap();
    assert!(server.turn_back(&snapshot));
    assert_eq!(watch.count().await, 0, "watches end");
    assert_eq!(server.resource_version(), version);
    assert_eq!(api.get("kept").await.unwrap(), kept);
    assert!(api.get_opt("lost").await.unwrap().is_none());
    let again = api.create(&PostParams::default(), &config("lost", "red")).await.unwrap();
    assert_eq!(again.resource_version(), lost.resource_version(), "versions are given out a second time");
    assert_ne!(again.uid(), lost.uid());
}

#[tokio::test(start_paused = true)]
async fn a_frozen_server_takes_requests_and_answers_them_after_the_thaw() {
    let server = server();
    let api: Api<ConfigMap> = Api::default_namespaced(client(&server));
    let from = server.resource_version();
    // Its time is over during the freeze: it ends after it, not before.
    let mut watch =
        api.watch(&WatchParams::default().timeout(10), &from.to_string()).await.unwrap().map_ok(drop).boxed();
    server.freeze();
    let slow = Duration::from_secs(60);
    let create = async |name: &str| api.create(&PostParams::default(), &config(name, "red")).await.map(drop);
    assert!(tokio::time::timeout(slow, create("given-up")).await.is_err());
    assert!(tokio::time::timeout(slow, watch.next()).await.is_err());
    let thaw = async {
        tokio::time::sleep(slow).await;
        assert_eq!(server.resource_version(), from, "nothing happens in the meantime");
        server.thaw();
    };
    let (patient, ()) = tokio::join!(create("patient"), thaw);
    patient.unwrap();
    assert!(watch.next().await.unwrap().is_ok(), "the change, told late");
    assert!(watch.next().await.is_none());
    let names: Vec<_> = api.list(&ListParams::default()).await.unwrap().iter().map(ResourceExt::name_any).collect();
    assert_eq!(names, ["patient"]);
}

#[tokio::test(start_paused = true)]
async fn events_are_gone_an_hour_after_their_last_write() {
    use k8s_openapi::api::core::v1::Event;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicI64, Ordering};

    let minutes = Arc::new(AtomicI64::new(0));
    let clock = Arc::clone(&minutes);
    let now = move || Timestamp::from_second(60 * clock.load(Ordering::Relaxed)).unwrap();
    let server = ApiServer::new(Options::new(now, 1));
    let events: Api<Event> = Api::default_namespaced(client(&server));
    let event = |name: &str| -> Event {
        serde_json::from_value(json!({"metadata": {"name": name}, "involvedObject": {"kind": "Job"}})).unwrap()
    };
    for name in ["old", "renewed"] {
        events.create(&PostParams::default(), &event(name)).await.unwrap();
    }
    minutes.store(50, Ordering::Relaxed);
    let again = Patch::Merge(json!({"count": 2}));
    events.patch("renewed", &PatchParams::default(), &again).await.unwrap();
    minutes.store(61, Ordering::Relaxed);
    events.create(&PostParams::default(), &event("new")).await.unwrap();
    let names: Vec<String> =
        events.list(&ListParams::default()).await.unwrap().items.iter().map(ResourceExt::name_any).collect();
    assert_eq!(names, ["new", "renewed"]);
}
